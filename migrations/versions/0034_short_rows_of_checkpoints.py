"""Rows of checkpoints take less than half as many bytes, and SQLite stores instants as numbers.

Rows of checkpoints are converted one after the other, about 4000 in a second of CPU. On PostgreSQL, the old table can
be read meanwhile and is locked only while the new one takes its name. `ckptd.core.rows.packed_*` describe the new
columns; the forms in which earlier versions wrote the old ones are read here. docs/decisions/0025 says why this
migration imports these modules and rewrites the table, and what to do before one of them changes.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import sqlalchemy as sa
from alembic import op

from ckptd.core.model import FileIdentity, Grouping
from ckptd.core.rows.packed_details import pack_details
from ckptd.core.rows.packed_groupings import pack_grouping
from ckptd.core.rows.packed_members import pack_members
from ckptd.core.rows.stored_checkpoints import key_of_path, shorten_path
from ckptd.core.rows.text_escapes import decode_text, encode_text

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

BATCH_ROWS = 2000
STATES = {"writing": 0, "complete": 1, "damaged": 2, "unknown": 3}
ROLES = {"data": 0, "state": 1, "weights": 2, "part": 3}
LEVELS = {"structure": 0, "listed": 1, "full": 2}
KEPT = (
    "id", "first_seen_at", "modified_at", "completed_at", "started_writing_at", "deleted_at", "pruned_at",
    "verified_full_at", "renamed_at", "size_bytes", "step", "epoch", "run_id", "attempt_id", "is_pinned", "format",
    "reason", "owner_verified_at", "owner_damage",
)  # fmt: skip
READ = (
    *KEPT, "path", "files", "identities", "owner_uids", "state", "level", "role", "role_evidence", "is_result",
    "name_epoch", "name_step", "content_epoch", "content_step", "is_best", "is_newest", "is_listed", "metrics",
    "goal_epoch", "goal_step", "unsafe", "grouping", "parts", "continued_count", "continued_from_step", "computation",
)  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        shorten_instants(connection)
    else:
        op.execute("SET LOCAL statement_timeout = 0")
        op.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")  # others may read
    create_table()
    copy_rows(connection)
    op.drop_table("checkpoints")
    rename_table(connection)
    op.create_index("ix_checkpoints_run_id_path_key", "checkpoints", ["run_id", "path_key"])
    for name, column, condition in (
        ("ix_checkpoints_present", "run_id", sa.text("deleted_at IS NULL")),
        ("ix_checkpoints_attempt_id", "attempt_id", sa.text("attempt_id IS NOT NULL")),
    ):
        op.create_index(name, "checkpoints", [column], sqlite_where=condition, postgresql_where=condition)


def shorten_instants(connection: sa.Connection) -> None:
    """Replace the text of every instant by microseconds since 1970."""
    inspector = sa.inspect(connection)
    for table in inspector.get_table_names():
        names = [each["name"] for each in inspector.get_columns(table) if isinstance(each["type"], sa.DateTime)]
        if names and table != "checkpoints":
            changes = ", ".join(f'"{name}" = {in_microseconds(name)}' for name in names)
            connection.exec_driver_sql(f'UPDATE "{table}" SET {changes}')  # noqa: S608 - names of this database


def in_microseconds(name: str) -> str:
    seconds = f"CAST(strftime('%s', substr(\"{name}\", 1, 19)) AS INTEGER) * 1000000"
    rest = f"CAST(substr(\"{name}\" || '000000', 21, 6) AS INTEGER)"
    return f'CASE WHEN typeof("{name}") = \'text\' THEN {seconds} + {rest} ELSE "{name}" END'


def create_table() -> None:
    instant = sa.DateTime(timezone=True)
    number = sa.BigInteger()
    op.create_table(
        "new_checkpoints",
        sa.Column("id", number.with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("first_seen_at", instant, nullable=False),
        sa.Column("modified_at", instant, nullable=False),
        sa.Column("completed_at", instant, nullable=True),
        sa.Column("started_writing_at", instant, nullable=True),
        sa.Column("deleted_at", instant, nullable=True),
        sa.Column("pruned_at", instant, nullable=True),
        sa.Column("verified_full_at", instant, nullable=True),
        sa.Column("renamed_at", instant, nullable=True),
        sa.Column("owner_verified_at", instant, nullable=True),
        sa.Column("size_bytes", number, nullable=False),
        sa.Column("step", number, nullable=True),
        sa.Column("epoch", sa.Double(), nullable=True),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("path_key", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("role", sa.SmallInteger(), nullable=True),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("format", sa.String(64), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=True),
        sa.Column("owner_uids", sa.Text(), nullable=True),
        sa.Column("unsafe", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("owner_damage", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_new_checkpoints"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_new_checkpoints_run_id_runs"),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_new_checkpoints_attempt_id_attempts"),
    )


def rename_table(connection: sa.Connection) -> None:
    op.rename_table("new_checkpoints", "checkpoints")
    if connection.dialect.name != "postgresql":
        return
    for name in ("pk_{}checkpoints", "fk_{}checkpoints_run_id_runs", "fk_{}checkpoints_attempt_id_attempts"):
        op.execute(f"ALTER TABLE checkpoints RENAME CONSTRAINT {name.format('new_')} TO {name.format('')}")
    op.execute("ALTER SEQUENCE new_checkpoints_id_seq RENAME TO checkpoints_id_seq")
    op.execute("SELECT setval('checkpoints_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM checkpoints), false)")


def copy_rows(connection: sa.Connection) -> None:
    columns = ", ".join(f'c."{name}"' for name in READ)
    statement = f"""
        SELECT {columns}, r.directory, r.uid FROM checkpoints c JOIN runs r ON r.id = c.run_id
        WHERE c.id > :last ORDER BY c.id LIMIT {BATCH_ROWS}
    """  # noqa: S608 - the columns above
    new = sa.table("new_checkpoints", *map(sa.column, (*KEPT, *NEW)))
    is_sqlite = connection.dialect.name == "sqlite"
    last = -1
    while rows := connection.execute(sa.text(statement), {"last": last}).all():
        connection.execute(sa.insert(new), [convert(row, is_sqlite=is_sqlite) for row in rows])
        last = rows[-1].id


NEW = ("path_key", "state", "role", "path", "members", "details", "owner_uids", "unsafe")


def convert(row: sa.Row, *, is_sqlite: bool) -> dict[str, object]:
    """Return the new columns of an old row."""
    modified_at = read_instant(row.modified_at)
    directory = decode_text(row.directory)
    whole_path = decode_text(row.path)
    name = whole_path.rstrip("/").rpartition("/")[2]
    path = shorten_path(whole_path, directory)
    identities = read_identities(json.loads(row.identities), modified_at, row.size_bytes)
    owner_uids = json.loads(row.owner_uids)
    values = {kept: getattr(row, kept) for kept in KEPT}
    if is_sqlite:
        instants = {kept: value for kept, value in values.items() if kept.endswith("_at") and value is not None}
        values |= {kept: to_microseconds(read_instant(value)) for kept, value in instants.items()}
    return values | {
        "path_key": key_of_path(path),
        "state": STATES[row.state],
        "role": None if row.role is None else ROLES[row.role],
        "path": encode_text(path),
        "members": pack_members(name, read_files(name, json.loads(row.files)), identities, modified_at, row.size_bytes),
        "details": pack_details(list_details(row, path)),
        "owner_uids": None if owner_uids == [row.uid] else row.owner_uids,
        "unsafe": None if row.unsafe == "[]" else row.unsafe,
    }


def read_instant(value: str | datetime) -> datetime:
    return datetime.fromisoformat(value + "+00:00") if isinstance(value, str) else value.astimezone(UTC)


def to_microseconds(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)


def list_details(row: sa.Row, path: str) -> dict[str, object]:
    found: dict[str, object] = {
        "is_best": None if row.is_best is None else bool(row.is_best),
        "is_newest": None if row.is_newest is None else bool(row.is_newest),
        "is_listed": None if row.is_listed is None else bool(row.is_listed),
        "is_result": bool(row.is_result) or None,
        "level": LEVELS[row.level] or None,
        "metrics": json.loads(row.metrics) or None,
        "role_evidence": decode_text(row.role_evidence or "") or None,
        "goal_epoch": shorten(row.goal_epoch),
        "goal_step": row.goal_step,
        "continued_count": row.continued_count,
        "continued_from_step": row.continued_from_step,
        "computation": None if row.computation is None else decode_text(row.computation),
        "grouping": pack_grouping(read_grouping(json.loads(row.grouping)), path) if row.grouping else None,
        "parts": (json.loads(row.parts) if row.parts else None) or None,
    }
    for name, same in (("epoch", row.epoch), ("step", row.step)):
        for kind in ("name", "content"):
            number = getattr(row, f"{kind}_{name}")
            found[f"{kind}_{name}"] = "=" if number is not None and number == same else shorten(number)
    return {name: value for name, value in found.items() if value is not None}


def shorten(number: float | None) -> float | None:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def read_files(name: str, files: list) -> list[str]:
    """Return the files of a row; `/` at its beginning stands for the name of the checkpoint."""
    if files and isinstance(files[0], list):
        return files[0]
    return [name + file[1:] if file.startswith("/") else file for file in files]


def read_identities(values: list, modified_at: datetime, size_bytes: int) -> list[FileIdentity]:
    """Return the identities of a row: each in a list, or five numbers each, as differences from the one before."""
    return list(iterate_identities(values, modified_at, size_bytes))


def iterate_identities(values: list, modified_at: datetime, size_bytes: int) -> Iterator[FileIdentity]:
    if values and isinstance(values[0], list):
        yield from (FileIdentity(*each) for each in values)
        return
    before = SimpleNamespace(device=0, inode=0, size=size_bytes // max(len(values) // 5, 1))
    before.modified = to_microseconds(modified_at) * 1000
    for start in range(0, len(values), 5):
        device, inode, size, modified, changed = values[start : start + 5]
        before.device += device
        before.inode += inode
        before.size += size
        before.modified += modified
        changed_ns = 0 if changed is None else before.modified + changed
        yield FileIdentity(before.device, before.inode, before.size, before.modified, changed_ns)


def read_grouping(values: dict | list) -> Grouping:
    """Return the grouping of a row: fields by name, or in their order without defaults at the end."""
    if isinstance(values, dict):
        return Grouping(**values | {"progress": tuple(values.get("progress", ()))})
    defaults: tuple = ("", (), "", 0, None)
    series, progress, evidence, flags, doubt = tuple(values) + defaults[len(values) :]
    return Grouping(
        series=series,
        progress=tuple(progress),
        evidence=f"the word {evidence[0]} is beside the number" if isinstance(evidence, list) else evidence,
        has_progress_word=bool(flags & 1),
        is_directory=bool(flags & 2),
        doubt=doubt,
    )
