"""The name by which the audit table knows a daemon."""

import os


def name_daemon() -> str:
    """Return this process's host name and process id."""
    return f"daemon {os.uname().nodename} {os.getpid()}"
