"""The columns that plain SQL reads are decoded as the types of the tables say."""

import json

import pytest

from ckptd.core.rows.stored_instants import instant
from ckptd.store import audit_rows, columns, histories, history_rows, mention_rows, named_locations, plain_rows
from ckptd.store.location_tables import LocationTable
from ckptd.store.plain_rows import decode_any, decode_number, decode_seconds
from ckptd.store.tables import (
    AttemptTable,
    AuditTable,
    CheckpointTable,
    JobTable,
    MentionTable,
    RunTable,
)

DECODERS = {
    "BigInteger": decode_any,
    "Boolean": bool,
    "Instant": instant,
    "Integer": decode_any,
    "IntOrFloat": decode_number,
    "Json": json.loads,
    "LargeBinary": decode_any,
    "Seconds": decode_seconds,
    "String": decode_any,
    "Text": decode_any,
}
GROUPS = [
    (plain_rows.JOB, JobTable),
    (plain_rows.JOB_KEY, JobTable),
    (plain_rows.ATTEMPT, AttemptTable),
    (plain_rows.CONTENT, CheckpointTable),
    (plain_rows.RECORD, CheckpointTable),
    (plain_rows.RUN_KEY, RunTable),
    (audit_rows._COLUMNS, AuditTable),
    (histories._WANTED, RunTable),
    (history_rows._RUN, RunTable),
    (named_locations._NAMED, LocationTable),
    (mention_rows._MENTIONS, MentionTable),
    (mention_rows._LINKS, RunTable),
    (plain_rows.Columns(column.name for column in RunTable.__table__.columns), RunTable),
]


@pytest.mark.parametrize(("group", "table"), GROUPS)
def test_a_column_is_decoded_as_its_table_says(group, table):
    types = {column.name: column.type for column in table.__table__.columns}
    for name, decoder in zip(group.names, group._decoders, strict=True):
        kind = types[name]
        if isinstance(kind, columns.EnumCode):
            assert [(decoder(code), code) for _, code in kind.codes] == list(kind.codes), name
            continue
        expected = kind.words if isinstance(kind, columns.EnumText) else DECODERS[type(kind).__name__]
        assert decoder is expected, name


def test_no_row_ids_match_nothing():
    assert plain_rows.list_numbers([]) == "NULL"
    assert plain_rows.list_numbers([3, 1]) == "3, 1"
