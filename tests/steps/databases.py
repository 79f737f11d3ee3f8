"""On which databases a test runs: on SQLite, and on PostgreSQL, too, where it is marked so.

Marked are those that together make use of every line of the store that all tests of these modules make use of.
"""

import pytest

on_both_databases = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
