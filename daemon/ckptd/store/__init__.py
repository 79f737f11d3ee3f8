"""The database: one module for each kind of record, one short transaction a call."""
