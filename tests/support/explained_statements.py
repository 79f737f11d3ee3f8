"""Explains each statement that a store runs on PostgreSQL, in the transaction and with the values of its call.

The statement runs twice: first under EXPLAIN (ANALYZE, BUFFERS), which a savepoint undoes, then as the program wants.
"""

import json
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import sqlalchemy as sa

from ckptd.store import engine as store_engine

_EXPLAINED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@dataclass
class ExplainedStatement:
    """One statement, how long it took (milliseconds), and how many rows of each table it read."""

    text: str
    milliseconds: float
    block_count: int  # of 8 KiB, in memory or not
    row_count: int  # rows that it returned or changed
    rows_read: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    sequential: set[str] = field(default_factory=set)  # tables that it read from end to end
    plan: object = None


@contextmanager
def explain_statements(engine):
    """Yield a list to which every statement of the engine is appended meanwhile."""
    found = []

    def explain(connection, _cursor, statement, parameters, _context, executemany):
        if not statement.lstrip().upper().startswith(_EXPLAINED):
            return
        values = parameters[0] if executemany else parameters
        with connection.connection.cursor() as cursor:
            cursor.execute("SAVEPOINT explained")
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", values)
            [(told,)] = cursor.fetchall()
            cursor.execute("ROLLBACK TO SAVEPOINT explained")
        [told] = json.loads(told) if isinstance(told, str) else told
        found.append(_summarize(statement, told))

    run_plain = store_engine.run_plain

    def explain_plain(connection, statement, values=None):
        if connection.engine is engine:
            explain(connection, None, statement, values, None, False)
        return run_plain(connection, statement, values)

    sa.event.listen(engine, "before_cursor_execute", explain)
    try:
        with mock.patch.object(store_engine, "run_plain", explain_plain):
            yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", explain)


def _summarize(statement, told):
    root = told["Plan"]
    blocks = root.get("Shared Hit Blocks", 0) + root.get("Shared Read Blocks", 0)
    changed = root if root["Node Type"] != "ModifyTable" else root["Plans"][0]
    result = ExplainedStatement(
        " ".join(statement.split()),
        told["Execution Time"] + told["Planning Time"],
        blocks,
        round(changed["Actual Rows"] * changed["Actual Loops"]),
        plan=told,
    )
    _add_node(root, result, None)
    return result


def _add_node(node, result, heap_table):
    """Count the rows that a node read; those of a bitmap's index scans belong to the table above them."""
    kind, table = node["Node Type"], node.get("Relation Name")
    filtered = sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
    read = round((node["Actual Rows"] + filtered) * node["Actual Loops"])
    if table is not None and "Scan" in kind:
        result.rows_read[table] += read
        if kind == "Seq Scan" and node["Actual Loops"]:
            result.sequential.add(table)
    elif kind == "Bitmap Index Scan" and heap_table is not None:
        result.rows_read[heap_table] += read
    for below in node.get("Plans", ()):
        _add_node(below, result, table or heap_table)
