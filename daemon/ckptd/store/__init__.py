"""The database: what was seen, decided and done. Rows stay in here; core values go in and come out."""
