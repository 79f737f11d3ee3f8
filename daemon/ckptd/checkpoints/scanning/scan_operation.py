"""Scans one checkpoint directory, as its owner, in the agent's child."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.agent import scan_json
from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.scanning import (
    adapter_bases,
    declarations,
    job_results,
    pointers,
    reads_since_start,
    silent_work_dirs,
)
from ckptd.checkpoints.scanning.allowed_roots import open_allowed
from ckptd.checkpoints.scanning.inspection import Inspection, inspect_tree
from ckptd.checkpoints.scanning.job_results import JobResults, ReadPiece
from ckptd.checkpoints.scanning.mounts import Mount, find_mount, read_recent_mounts
from ckptd.checkpoints.scanning.quota import read_quota_left
from ckptd.checkpoints.scanning.tree_fingerprint import CHANGED, UNCHANGED, read_fingerprint
from ckptd.checkpoints.verify_jobs import ticket_files
from ckptd.core.model import Checkpoint, CheckpointRead, Scan, Unknown
from ckptd.core.rows.sent_checkpoints import decode_contents
from ckptd.core.rows.stored_checkpoints import RowContext
from ckptd.errors import CkptdError

READ_UNTIL = 0.6  # of the time of a scan, or less: what follows makes checkpoints of what was read
LEAST_READING = 0.2  # of it, if no more is left
LEAST_READING_SECONDS = 1.0
MAX_PROBLEMS = 20  # reported individually: a user may have any number of unreadable files


def scan_in_tables(item: dict[str, Any]) -> dict[str, Any]:
    """Do the same as `scan`, for a receiver that knows tables of checkpoints."""
    return scan({**item, "in_tables": True})


def scan(item: dict[str, Any]) -> dict[str, Any]:
    """Scan `item["directory"]` at `item["now"]` and return the encoded scan.

    With a fingerprint of an earlier scan, the checkpoints are left out if nothing changed since; if anything did, only
    that is returned, and the caller asks again with the checkpoints that it knows. What cannot be read within
    `item["seconds"]` is left to the next scan. `item["results"]` names results of jobs of the directory's owner: what
    they have read, and this scan has not, need not be read again.

    Raises:
        OutsideRootsError: the directory is not below an allowed root.
        OSError: the directory itself cannot be opened.

    """
    with open_allowed(item["directory"], item["allowed_roots"]) as descriptor:
        if item["fingerprint"] is None:
            return _scan(item, descriptor)
        found, entry_count = read_fingerprint(
            descriptor,
            max_depth=item["max_depth"],
            max_entries=item["max_entries"],
            write_grace=timedelta(seconds=item["write_grace_seconds"]),
        )
        if found != item["fingerprint"]:
            return {"answer": CHANGED}
        same = Inspection(
            root=PurePosixPath(item["directory"]),
            checkpoints=(),
            links=(),
            unrecognised=(),
            leftovers=(),
            markers=(),
            problems=(),
            fingerprint=found,
            entry_count=entry_count,
        )
        return _look_around(item, descriptor, same, ()) | {"answer": UNCHANGED}


def _scan(item: dict[str, Any], descriptor: int) -> dict[str, Any]:
    now, seconds = time.monotonic(), item["seconds"]
    limits = ChildLimits(
        until=now + seconds * READ_UNTIL,
        least_seconds=max(seconds * LEAST_READING, LEAST_READING_SECONDS),
        begun_at=now,
        over_at=now + seconds,
    )
    known = decode_contents(item["known"], RowContext(item["directory"], os.getuid()))
    found = inspect_tree(
        PurePosixPath(item["directory"]),
        descriptor=descriptor,
        now=datetime.fromtimestamp(item["now"], UTC),
        known=known,
        max_depth=item["max_depth"],
        max_entries=item["max_entries"],
        write_grace=timedelta(seconds=item["write_grace_seconds"]),
        limits=limits,
        parser=item.get("parser") if item.get("shares_parser") else None,
        results=_read_results(item),
    )
    return _look_around(item, descriptor, found, known)


def _read_results(item: dict[str, Any]) -> JobResults | None:
    """Return what tasks of a job have read; those that left no result, or one that cannot be believed, say nothing."""
    asked = item["results"]
    if asked is None:
        return None
    pieces: list[ReadPiece] = []
    for task in asked["tasks"]:
        with suppress(OSError, CkptdError):
            directory = ticket_files.find_directory(asked["directory"], asked["ticket"])
            pieces += job_results.parse_result(ticket_files.read_result(directory, task), task)
    return JobResults(pieces, os.getuid())


def _look_around(
    item: dict[str, Any], descriptor: int, found: Inspection, known: Sequence[Checkpoint]
) -> dict[str, Any]:
    """Return the encoded scan, with what changes while the tree stays as it is: free space, quota, what jobs say."""
    directory, scanned = found.root, str(found.root)
    now = datetime.fromtimestamp(item["now"], UTC)
    work_dirs, roots, jobs = item["work_dirs"], item["allowed_roots"], item["resuming_jobs"]
    naming = silent_work_dirs.list_naming(work_dirs, scanned)
    bases = adapter_bases.list_bases(found.adapters, work_dirs, scanned)
    links = pointers.gather(found.link_texts, naming, roots, scanned, bases)
    declaring = silent_work_dirs.list_declaring([scanned, *work_dirs], scanned) if jobs else []
    declared = declarations.collect(declaring, roots, jobs)
    finished_at = max(datetime.now(UTC), now)
    space = os.fstatvfs(descriptor)
    mount = find_mount(read_recent_mounts(), directory)
    reads = _list_reads(item, descriptor, mount)
    command = item["quota_command"]
    quota = read_quota_left(command, directory, mount.point) if command and mount else None
    return scan_json.encode_scan(
        Scan(
            directory=directory,
            scanned_at=now,
            checkpoints=found.checkpoints,
            problems=_bound(found.problems),
            leftovers=found.leftovers,
            free_bytes=space.f_bavail * space.f_frsize,
            total_bytes=space.f_blocks * space.f_frsize,
            quota_left_bytes=None if isinstance(quota, Unknown) else quota,
            quota_error=quota.reason if isinstance(quota, Unknown) else None,
            quota_read_at=now if command else None,
            filesystem_type=mount.filesystem_type if mount else None,
            markers=found.markers,
            finished_at=finished_at,
            links=tuple(links),
            declared=declared,
            reads=tuple(reads),
            fingerprint=found.fingerprint,
            entry_count=found.entry_count,
            unread_count=found.unread_count,
            unrecognised=found.newest_unrecognised,
        ),
        known,
        in_tables=item.get("in_tables", False),
    )


def _list_reads(item: dict[str, Any], descriptor: int, mount: Mount | None) -> list[CheckpointRead]:
    if item["read_since"] is None:
        return []
    since_ns, now_ns = (int(item[name] * 1e9) for name in ("read_since", "now"))
    directory = PurePosixPath(item["directory"])
    return reads_since_start.list_reads(descriptor, directory, item["candidates"], since_ns, now_ns, mount)


def _bound(problems: tuple[Unknown, ...]) -> tuple[Unknown, ...]:
    if len(problems) <= MAX_PROBLEMS:
        return problems
    rest = Unknown(what="directory", reason=f"{len(problems) - MAX_PROBLEMS} more entries could not be read")
    return (*problems[:MAX_PROBLEMS], rest)
