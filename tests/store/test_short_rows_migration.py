"""Rows of checkpoints that earlier versions wrote are converted without a loss."""

import json
from datetime import UTC, datetime

import sqlalchemy as sa

from ckptd.core.model import CheckpointState, FileIdentity, Grouping, Level, Role, RunKey
from ckptd.store import schema
from ckptd.store.engine import begin
from ckptd.store.row_values import hash_path
from ckptd.store.store import Store

SEEN_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WRITTEN_AT = datetime(1969, 12, 31, 23, 59, 58, 678901, tzinfo=UTC)
RUN = RunKey("alpha", 1000, "/data/\udcffrun")
STORED = "/data/\\udcffrun"  # as the databases have it
PLAIN = {
    "run_id": 7, "first_seen_at": SEEN_AT, "modified_at": WRITTEN_AT, "is_pinned": True, "format": "torch",
    "owner_uids": "[1000]", "size_bytes": 30, "state": "complete", "level": "structure", "metrics": "{}",
    "unsafe": "[]",
}  # fmt: skip
LONG = PLAIN | {
    "id": 11,
    "path": f"{STORED}/step-5",
    "completed_at": WRITTEN_AT,
    "files": json.dumps(["step-5/a.pt", "step-5/b.pt"]),
    "identities": json.dumps([[1, 2, 10, 3], [1, 3, 20, 4, 5]]),
    "grouping": json.dumps({"series": "step-#", "progress": [5], "evidence": "the word `step` is beside the number"}),
    "step": 5,
    "name_step": 5,
    "content_step": 6,
    "role": "state",
    "role_evidence": "holds the state of an optimizer",
    "is_best": False,
    "owner_verified_at": WRITTEN_AT,
}
SHORT = PLAIN | {
    "id": 12,
    "path": f"{STORED}/step-6.pt",
    "files": json.dumps(["/"]),
    "identities": json.dumps([65024, 6195174, 0, 7, None]),
    "grouping": json.dumps(["step-#.pt", [6], ["`step`"], 1]),
    "owner_uids": "[0,1000]",
    "state": "damaged",
    "level": "full",
    "reason": "torn",
    "unsafe": '["os.system"]',
    "metrics": '{"loss":0.5}',
    "deleted_at": SEEN_AT,
    "goal_epoch": 90.0,
    "owner_damage": "a checksum",
}


def insert(connection, to, **values):
    table = sa.Table(to, sa.MetaData(), autoload_with=connection)
    if connection.dialect.name == "sqlite":  # has no time zones
        values = {
            key: each.replace(tzinfo=None) if isinstance(each, datetime) else each for key, each in values.items()
        }
    connection.execute(table.insert(), values)


def fill(engine):
    schema.upgrade(engine, "0033")
    with begin(engine, is_writer=True) as connection:
        insert(connection, "clusters", name="alpha", polled_at=SEEN_AT)
        shared = {"user": "alice", "recorded_since": SEEN_AT, "revision": 1, "directory_hash": hash_path(RUN.directory)}
        insert(connection, "runs", id=7, cluster="alpha", uid=1000, directory=STORED, **shared)
        for row in (LONG, SHORT):
            insert(connection, "checkpoints", path_hash=hash_path(row["path"]), **row)


def read(engine):
    store = Store.open(engine.url)
    found = store.checkpoints.read(RUN)
    (status,) = store.clusters.read_status()
    store.close()
    return {each.checkpoint.path.name: each for each in found}, status


def test_every_value_is_kept(empty_engine):
    fill(empty_engine)
    schema.upgrade(empty_engine)
    found, status = read(empty_engine)
    assert status.polled_at == SEEN_AT
    long, short = found["step-5"], found["step-6.pt"]
    assert str(long.checkpoint.path) == f"{RUN.directory}/step-5"
    assert (long.first_seen_at, long.completed_at, long.is_pinned) == (SEEN_AT, WRITTEN_AT, True)
    assert long.checkpoint.modified_at == WRITTEN_AT
    assert long.checkpoint.files == ("step-5/a.pt", "step-5/b.pt")
    assert long.checkpoint.identities == (FileIdentity(1, 2, 10, 3), FileIdentity(1, 3, 20, 4, 5))
    assert long.checkpoint.grouping == Grouping(
        series="step-#", progress=(5,), evidence="the word `step` is beside the number"
    )
    assert (long.checkpoint.step, long.checkpoint.name_step, long.checkpoint.content_step) == (5, 5, 6)
    assert (long.checkpoint.role, long.checkpoint.role_evidence) == (Role.STATE, LONG["role_evidence"])
    assert (long.checkpoint.is_best, long.checkpoint.owner_uids) == (False, {1000})
    assert short.checkpoint.files == ("step-6.pt",)
    written_ns = -1_321_099_000 + 7
    assert short.checkpoint.identities == (FileIdentity(65024, 6195174, 30, written_ns),)
    assert short.checkpoint.grouping == Grouping(
        series="step-#.pt", progress=(6,), evidence="the word `step` is beside the number", has_progress_word=True
    )
    assert (short.checkpoint.state, short.checkpoint.level) == (CheckpointState.DAMAGED, Level.FULL)
    assert (short.checkpoint.reason, short.checkpoint.unsafe) == ("torn", ("os.system",))
    assert (short.checkpoint.metrics, short.checkpoint.goal_epoch) == ({"loss": 0.5}, 90)
    assert (long.owner_verified_at, short.owner_damage) == (WRITTEN_AT, "a checksum")
    assert (short.checkpoint.owner_uids, short.deleted_at) == ({0, 1000}, SEEN_AT)


def test_new_rows_are_numbered_after_the_converted_ones(empty_engine):
    fill(empty_engine)
    schema.upgrade(empty_engine)
    with begin(empty_engine, is_writer=True) as connection:
        names = "run_id, first_seen_at, modified_at, size_bytes, path_key, state, is_pinned, format, path, members"
        connection.exec_driver_sql(f"INSERT INTO checkpoints ({names}) SELECT {names} FROM checkpoints WHERE id = 11")
        assert connection.exec_driver_sql("SELECT max(id) FROM checkpoints").scalar_one() == 13
