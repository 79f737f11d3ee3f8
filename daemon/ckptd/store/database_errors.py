"""The errors of the database, in a module of their own so that catching one imports no database library."""

from ckptd.errors import CkptdError


class StoreError(CkptdError):
    """The database cannot be used; the text says why."""


class DatabaseAwayError(StoreError):
    """The database does not answer now, and may do so later without a change of the configuration."""

    exit_status = 1


class WrongDatabaseError(StoreError):
    """The database cannot be used until an administrator changes it, its address or its driver."""


class SchemaError(StoreError):
    """The database's tables do not match this version of ckptd; the text says what to do."""


class UnknownRunError(StoreError):
    """The run is not on record, or no longer: its jobs were assigned to another directory."""


class LeaseLostError(StoreError):
    """Another process acts for the cluster now, and nothing more is recorded for this one; the text names the other."""


class DatabaseReplacedError(StoreError):
    """The database is no longer the one that this process has written to."""


class AlreadyRecordedError(StoreError):
    """The same action is on record already, and is not to be done twice."""


def describe(error: object) -> str:
    """Return a driver's error in one line, without the statement that psycopg adds to those of PostgreSQL."""
    diagnosis = getattr(error, "diag", None)
    parts = (diagnosis.message_primary, diagnosis.message_detail) if diagnosis is not None else ()
    return " ".join((": ".join(filter(None, parts)) or str(error)).split())
