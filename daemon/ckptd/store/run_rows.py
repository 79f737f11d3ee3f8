"""Finds runs with plain SQL: by their key, by a job, by their directory."""

from collections.abc import Collection, Mapping

from ckptd.core.model import RunKey
from ckptd.core.rows.text_escapes import encode_text
from ckptd.store.database_errors import UnknownRunError
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import RUN_KEY
from ckptd.store.read_parts import ReadPart, selecting
from ckptd.store.row_values import hash_path, split
from ckptd.store.run_parts import find_acting_parts

MOST_OF_ARRAY = 1000  # attempts of tasks whose runs an array's id finds
OF_ANY_CLUSTER = "{table}.cluster IN (SELECT name FROM clusters)"  # for indexes that begin with the cluster
IS_LOCATED = "substr(r.directory, 1, 1) = '/'"


def find_runs(select: Select, keys: Collection[RunKey]) -> dict[RunKey, int]:
    """Return the row ids of the recorded runs among these."""
    return {key: row_id for key, (row_id, _) in find_revisions(select, keys).items()}


def find_revisions(select: Select, keys: Collection[RunKey]) -> dict[RunKey, tuple[int, int]]:
    """Return the row ids and revisions of the recorded runs among these."""
    result: dict[RunKey, tuple[int, int]] = {}
    for chunk in split(keys):
        wanted = {(encode_text(key.cluster), key.uid, encode_text(key.directory)): key for key in chunk}
        clusters = {f"c{place}": name for place, name in enumerate({cluster for cluster, _, _ in wanted})}
        hashes = ", ".join(f"'{hash_path(key.directory)}'" for key in chunk)
        named = ", ".join(f":{name}" for name in clusters)
        statement = f"""
            SELECT r.id, r.revision, {RUN_KEY.of("r")} FROM runs r
            WHERE r.cluster IN ({named}) AND r.directory_hash IN ({hashes})
        """  # noqa: S608 - hexadecimal digits
        for row_id, revision, *names in select(statement, clusters):
            if (key := wanted.get(tuple(names))) is not None:  # others have the hash of one of them
                result[key] = row_id, revision
    return result


def find_run(select: Select, key: RunKey) -> int:
    """Return the row id of a run.

    Raises:
        UnknownRunError: the run is not recorded.

    """
    found = find_runs(select, [key])
    if key not in found:
        raise UnknownRunError(f"no run of user {key.uid} at {key.directory!r} is on record")
    return found[key]


class RunReader(ReadPart):
    """Runs: their keys and directories."""

    @selecting
    def find_of_job(
        self, select: Select, job_id: int, cluster: str | None = None, task_id: int | None = None
    ) -> tuple[RunKey, ...]:
        """Return the current and earlier runs of a job id, an array or an array task, latest first.

        While tasks of an array are pending, no task has the array's own id; the id then means the runs of all tasks.
        """
        if task_id is not None:
            condition = "j.array_job_id = :job_id AND j.array_task_id = :task_id"
            return _find_of(select, condition, {"job_id": job_id, "task_id": task_id}, cluster)
        of_job = _find_of(select, "j.job_id = :job_id", {"job_id": job_id}, cluster)
        return of_job or _find_of(select, "j.array_job_id = :job_id", {"job_id": job_id}, cluster)

    @selecting
    def join_parts(self, select: Select, keys: Collection[RunKey]) -> tuple[RunKey, ...]:
        """Return these runs, each once; of parts on several clusters with shared files, that which acts."""
        rows = find_runs(select, keys)
        acting = find_acting_parts(select, list(rows.values()))
        return tuple(dict.fromkeys(acting.get(rows[key], key) if key in rows else key for key in keys))

    @selecting
    def find_at(self, select: Select, directory: str, cluster: str | None = None) -> tuple[RunKey, ...]:
        """Return the runs of a directory, one for each user who has used it."""
        values: dict[str, object] = {"hash": hash_path(directory), "directory": encode_text(directory)}
        condition = "r.directory_hash = :hash AND r.directory = :directory"
        if cluster is None:
            condition = f"{condition} AND {OF_ANY_CLUSTER.format(table='r')}"
        else:
            condition, values["cluster"] = f"{condition} AND r.cluster = :cluster", encode_text(cluster)
        statement = f"SELECT {RUN_KEY.of('r')} FROM runs r WHERE {condition} ORDER BY r.id"  # noqa: S608
        return tuple(RunKey(*RUN_KEY.decode(row)) for row in select(statement, values))

    @selecting
    def list_keys(self, select: Select) -> tuple[RunKey, ...]:
        """Return the key of every recorded run with a known directory, of all clusters."""
        statement = f"SELECT {RUN_KEY.of('r')} FROM runs r WHERE {IS_LOCATED} ORDER BY r.id"  # noqa: S608
        return tuple(RunKey(*RUN_KEY.decode(row)) for row in select(statement, {}))

    @selecting
    def count_located(self, select: Select, cluster: str) -> int:
        """Count the recorded runs of a cluster with a known directory."""
        statement = f"SELECT count(*) FROM runs r WHERE r.cluster = :cluster AND {IS_LOCATED}"  # noqa: S608
        return int(next(iter(select(statement, {"cluster": encode_text(cluster)})))[0])

    @selecting
    def read_writing(self, select: Select) -> Mapping[RunKey, bool]:
        """Return every run with a known directory, of all clusters, and whether ckptd saw a job of it write there.

        For a run without an open job, this is true only while a checkpoint that it wrote exists.
        """
        return {RunKey(*RUN_KEY.decode(row[:3])): bool(row[3]) for row in select(_WRITING, {})}

    @selecting
    def has_retention_settings(self, select: Select, key: RunKey) -> bool:
        """Return whether the user of a run has settings about retention."""
        statement = """
            SELECT count(*) FROM runs WHERE id = :id AND retention_settings IS NOT NULL AND retention_settings <> '{}'
        """
        ((count,),) = select(statement, {"id": find_run(select, key)})
        return bool(count)


_WRITING = f"""
SELECT {RUN_KEY.of("r")}, EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.run_id = r.id AND c.attempt_id IS NOT NULL AND (
        c.deleted_at IS NULL OR EXISTS (SELECT 1 FROM jobs j WHERE j.run_id = c.run_id AND j.ended_at IS NULL)
    )
)
FROM runs r WHERE {IS_LOCATED} ORDER BY r.id
"""  # noqa: S608 - the columns are this package's own


def _find_of(select: Select, condition: str, values: Mapping[str, object], cluster: str | None) -> tuple[RunKey, ...]:
    if cluster is None:
        condition = f"{condition} AND {OF_ANY_CLUSTER.format(table='j')}"
    else:
        condition, values = f"{condition} AND j.cluster = :cluster", {**values, "cluster": encode_text(cluster)}
    statement = f"""
        SELECT {RUN_KEY.of("r")}
        FROM runs r JOIN attempts a ON a.run_id = r.id JOIN jobs j ON a.job_row = j.id
        WHERE {condition} ORDER BY a.started_at DESC LIMIT {MOST_OF_ARRAY}
    """  # noqa: S608 - the conditions are this module's own
    return tuple(dict.fromkeys(RunKey(*RUN_KEY.decode(row)) for row in select(statement, values)))
