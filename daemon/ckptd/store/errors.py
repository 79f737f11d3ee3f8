"""The errors of the database, apart from what raises them, so that naming one imports no database library."""

from ckptd.errors import CkptdError


class StoreError(CkptdError):
    """The database cannot be used; the text says why."""


class SchemaError(StoreError):
    """The database's tables are not those that this ckptd works with; the text says what to do."""
