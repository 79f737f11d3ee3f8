"""Says which statements read more rows than they need."""

import json

import sqlalchemy as sa

from ckptd.store.database_errors import StoreError
from support.explained_statements import explain_statements

FACTOR = 10  # times the rows that a call needs
LEAST = 500  # rows that any statement may read
LARGE = 10_000  # rows from which on a table is not to be read from end to end


def explain_calls(store, calls):
    """Yield each call with its explained statements, and the error that ended it."""
    for call in calls:
        error = None
        with explain_statements(store.database._engine) as found:
            try:
                call.run(store)
            except StoreError as failed:
                error = str(failed)[:300]
        yield call, found, error


def read_sizes(store):
    """Return about how many rows each table has."""
    with store.database.reading() as connection:
        rows = connection.execute(sa.text("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'"))
        return {name: int(count) for name, count in rows}


def list_failures(call, found, sizes, large=LARGE):
    """Return a sentence for each table of which a statement read too much."""
    allowed = max(LEAST, FACTOR * call.needed)
    for each in found:
        for table, count in each.rows_read.items():
            is_whole = table in each.sequential and sizes.get(table, 0) >= large and count > 2 * call.needed
            if count > allowed or is_whole:
                how = "all" if table in each.sequential else "by index"
                yield f"{call.name}: read {count} rows of {table} ({how}), needs {call.needed}: {each.text[:700]}"


def print_plans(found):
    for each in found:
        print(each.text, json.dumps(each.plan, indent=1), sep="\n")
