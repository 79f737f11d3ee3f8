"""The short forms of what rows of checkpoints have, and the long ones that earlier versions wrote."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import FileIdentity, Grouping
from ckptd.core.model.checkpoint_json import encode_grouping as encode_long_grouping
from ckptd.store import compact_columns
from ckptd.store.tables import CheckpointTable
from store.observing import poll, scan
from support.queue_facts import RUN, make_checkpoint, make_job
from support.recorded import locate

NUMBERS = st.integers(min_value=-(2**63), max_value=2**64)
IDENTITIES = st.lists(st.builds(FileIdentity, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=4)
INSTANTS = st.datetimes(min_value=datetime(1901, 1, 1), max_value=datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
GROUPINGS = st.builds(
    Grouping,
    series=st.text(max_size=9),
    progress=st.lists(st.integers(), max_size=3).map(tuple),
    evidence=st.one_of(
        st.text(max_size=9), st.text(max_size=5).map(lambda word: f"the word {word} is beside the number")
    ),
    has_progress_word=st.booleans(),
    is_directory=st.booleans(),
    doubt=st.none() | st.text(min_size=1, max_size=9),
)
NAMES = st.sampled_from(["", "step-5", "step-5.pt", "/", "a"])
SAVED_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
SET = make_checkpoint(
    "step-5",
    files=tuple(f"step-5/shard-{number:05}-of-00008.pt" for number in range(8)),
    identities=tuple(
        FileIdentity(65024, 6195174 + number, 2**30, 1_767_323_045_678_901_000 + number * 7, 1_767_323_045_700_000_000)
        for number in range(8)
    ),
    size_bytes=8 * 2**30,
    modified_at=SAVED_AT,
    grouping=Grouping(
        series="step-#",
        progress=(5,),
        evidence="the word `step` is beside the number",
        has_progress_word=True,
        is_directory=True,
    ),
)


def as_json(value):
    return json.loads(json.dumps(value))


@given(NAMES, st.lists(st.text(max_size=5) | NAMES.map(lambda name: f"{name}/x"), max_size=4))
def test_files_come_back_as_they_were(name, files):
    written = as_json(compact_columns.encode_files(name, files))
    assert list(compact_columns.decode_files(name, written)) == files


@given(IDENTITIES, INSTANTS, NUMBERS)
def test_identities_come_back_as_they_were(identities, modified_at, size_bytes):
    identities = [each._replace(changed_ns=max(each.changed_ns, 0)) for each in identities]
    written = as_json(compact_columns.encode_identities(identities, modified_at, size_bytes))
    assert compact_columns.decode_identities(written, modified_at, size_bytes) == tuple(identities)


@given(GROUPINGS)
def test_a_grouping_comes_back_as_it_was(grouping):
    written = as_json(compact_columns.encode_grouping(grouping))
    assert (compact_columns.decode_row_grouping(written) if written else Grouping()) == grouping


def write_long_forms(store, checkpoint):
    """Write the only row as the version before did."""
    values = {
        "files": list(checkpoint.files),
        "identities": [list(each) for each in checkpoint.identities],
        "grouping": encode_long_grouping(checkpoint.grouping),
    }
    with store.database.writing() as connection:
        connection.execute(sa.update(CheckpointTable).values(values))


def count_characters(store):
    columns = (CheckpointTable.files, CheckpointTable.identities, CheckpointTable.grouping)
    lengths = [sa.func.length(sa.cast(column, sa.Text)) for column in columns]
    with store.database.reading() as connection:
        return sum(connection.execute(sa.select(*lengths)).one())


def test_a_row_of_an_earlier_version_is_read_as_before_and_becomes_short_with_its_next_change(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    (known,) = scan(store, 1, SET).appeared
    short = count_characters(store)
    write_long_forms(store, SET)
    assert count_characters(store) > 2 * short
    assert store.checkpoints.read(RUN) == (known,)
    assert scan(store, 2, SET).is_empty
    changed = replace(SET, is_best=True)
    assert scan(store, 3, changed).changed
    assert count_characters(store) == short
    assert store.checkpoints.read(RUN)[0].checkpoint == changed


def test_what_a_checkpoint_of_one_file_writes_is_short(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    identity = FileIdentity(65024, 6195174, 119, 1_767_323_045_678_901_234, 1_767_323_045_678_950_000)
    one = make_checkpoint(
        "step-5.pt", identities=(identity,), size_bytes=119, modified_at=SAVED_AT, grouping=SET.grouping
    )
    scan(store, 1, one)
    assert count_characters(store) <= len('["/"]') + len("[65024,6195174,0,234,48766]") + len(
        '["step-#",[5],["`step`"],3]'
    )
    assert store.checkpoints.read(RUN)[0].checkpoint.identities == (identity,)
    assert one.modified_at + timedelta(0) == SAVED_AT
