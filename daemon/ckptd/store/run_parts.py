"""Finds the parts of runs that several clusters share: the same owner and directory, one row for each cluster.

Rows keep the cluster that wrote them; readers join them. A declaration that one cluster withdraws takes effect at once.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from itertools import chain
from typing import NamedTuple, TypeVar

from ckptd.core.model import Job, RunKey
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.text_escapes import encode_text
from ckptd.core.runs.shared_files import SharedDirectory, find_acting
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import JOB, RUN_KEY, list_numbers
from ckptd.store.row_values import job_from_row, split
from ckptd.store.shared_rows import read_mutual

Item = TypeVar("Item")
NO_PARTS: Mapping[int, tuple[int, ...]] = {}

_PAIRS = f"""
SELECT r.id, r.revision, o.id, o.revision, o.cluster, {RUN_KEY.of("r")}
FROM runs r JOIN runs o ON o.uid = r.uid AND o.directory_hash = r.directory_hash AND o.directory = r.directory
WHERE o.cluster = :other AND {{chosen}} ORDER BY r.id
"""  # noqa: S608 - the columns are this package's own


_RUNNING = f"""
SELECT j.run_id, {JOB.of("j")} FROM jobs j
WHERE j.run_id IN ({{runs}}) AND j.ended_at IS NULL AND j.state <> 'PENDING' ORDER BY j.id
"""  # noqa: S608 - the columns are this package's own


class RunPart(NamedTuple):
    """One row of a run: its cluster, number and revision."""

    cluster: str
    row_id: int
    revision: int


class JoinedRun(NamedTuple):
    """A run of one cluster, with its parts on the clusters that share its directory."""

    key: RunKey
    own: RunPart
    others: tuple[RunPart, ...]

    def find_acting(self, latest: Mapping[int, datetime]) -> str | None:
        """Return which cluster acts, by when the latest attempts started; None if only this one has any."""
        others = [part for part in self.others if part.row_id in latest]
        if not others:
            return None
        return find_acting({part.cluster: latest.get(part.row_id) for part in (self.own, *others)})


def find_parts(select: Select, row_ids: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Return the row ids of the other parts of each of these runs that has any."""
    shared = read_mutual(select)
    found: dict[int, tuple[int, ...]] = {}
    for chunk in split(row_ids) if shared else ():
        joined = _find(select, shared, f"r.id IN ({list_numbers(chunk)})", {})
        found.update({each.own.row_id: tuple(part.row_id for part in each.others) for each in joined})
    return found


def list_joined(select: Select, cluster: str) -> list[JoinedRun]:
    """Return the runs of a cluster that have parts on others."""
    shared = [each for each in read_mutual(select) if each.cluster == cluster]
    values: dict[str, object] = {"cluster": encode_text(cluster)}
    below: list[str] = []  # most runs are elsewhere, and are not to be compared with those of other clusters
    for place, directory in enumerate(dict.fromkeys(encode_text(each.directory) for each in shared)):
        values |= {f"directory{place}": directory, f"start{place}": f"{directory}/"}
        below.append(f"r.directory = :directory{place} OR substr(r.directory, 1, {len(directory) + 1}) = :start{place}")
    return _find(select, shared, f"r.cluster = :cluster AND ({' OR '.join(below)})", values) if shared else []


def read_latest_starts(select: Select, row_ids: Collection[int]) -> dict[int, datetime]:
    """Return when the latest attempt of each of these runs started; of those that have any."""
    found: dict[int, datetime] = {}
    for chunk in split(row_ids):
        statement = f"""
            SELECT run_id, max(started_at) FROM attempts WHERE run_id IN ({list_numbers(chunk)}) GROUP BY run_id
        """  # noqa: S608 - row ids
        for row_id, at in select(statement, {}):
            if (started_at := instant(at)) is not None:
                found[row_id] = started_at
    return found


def read_running(select: Select, row_ids: Collection[int]) -> dict[int, list[tuple[Job, str]]]:
    """Return the jobs of these runs that have started and not ended, with their users."""
    found: dict[int, list[tuple[Job, str]]] = defaultdict(list)
    for chunk in split(row_ids):
        for run_id, *rest in select(_RUNNING.format(runs=list_numbers(chunk)), {}):
            job = job_from_row(JOB.decode(rest))
            found[run_id].append((job, job.user))
    return found


def read_part_writers(select: Select, row_ids: Collection[int]) -> dict[int, list[tuple[Job, str]]]:
    """Return the jobs that run on other clusters, by the row ids of those of these runs that have other parts."""
    parts = find_parts(select, row_ids)
    return join_lists(read_running(select, add_parts((), parts)), parts, parts) if parts else {}


def find_acting_parts(select: Select, row_ids: Collection[int]) -> dict[int, RunKey]:
    """Return the part that acts for each of these runs that has other parts with attempts."""
    shared = read_mutual(select)
    found: dict[int, RunKey] = {}
    for chunk in split(row_ids) if shared else ():
        joined = _find(select, shared, f"r.id IN ({list_numbers(chunk)})", {})
        latest = read_latest_starts(select, {part.row_id for each in joined for part in (each.own, *each.others)})
        for each in joined:
            if acting := each.find_acting(latest):
                found[each.own.row_id] = each.key._replace(cluster=acting)
    return found


def _find(
    select: Select, shared: Collection[SharedDirectory], chosen: str, values: Mapping[str, object]
) -> list[JoinedRun]:
    own: dict[int, tuple[RunKey, RunPart]] = {}
    others: dict[int, list[RunPart]] = defaultdict(list)
    for name in dict.fromkeys(each.other_cluster for each in shared):
        rows = select(_PAIRS.format(chosen=chosen), {**values, "other": encode_text(name)})
        for row_id, revision, other_id, other_revision, _, *rest in rows:
            key = RunKey(*RUN_KEY.decode(rest))
            pairs = (each for each in shared if (each.cluster, each.other_cluster) == (key.cluster, name))
            if any(each.contains(key.directory) for each in pairs):
                own[row_id] = key, RunPart(key.cluster, row_id, revision)
                others[row_id].append(RunPart(name, other_id, other_revision))
    return [JoinedRun(key, part, tuple(others[row_id])) for row_id, (key, part) in sorted(own.items())]


def add_parts(row_ids: Iterable[int], parts: Mapping[int, Iterable[int]]) -> list[int]:
    """Return these row ids with those of the other parts, each once."""
    return list(dict.fromkeys(chain(row_ids, chain.from_iterable(parts.values()))))


def join_lists(
    found: Mapping[int, Iterable[Item]], row_ids: Iterable[int], parts: Mapping[int, Iterable[int]]
) -> dict[int, list[Item]]:
    """Return what was found for each of these runs with what was found for its parts."""
    return {
        row_id: [item for each in (row_id, *parts.get(row_id, ())) for item in found.get(each, ())]
        for row_id in row_ids
    }
