"""Tells the encodings of PostgreSQL that can hold every name that users write from those that cannot."""

READ_ENCODING = "SELECT current_setting('server_encoding')"


def explain(encoding: str) -> str | None:
    """Return why a database of this encoding cannot be used, and what to do; None if it can.

    In any other encoding, one job with a name in another script would stop the recording of all jobs.
    """
    if encoding == "UTF8":
        return None
    return (
        f"its encoding is {encoding}, which cannot hold all names of jobs and files: make another one with"
        " CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8'; `ckptd db copy` copies what is on record"
    )
