"""Parses the query of an address: search, filters, order and page of a list, the same for pages and documents."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from ckptd.core.model import Finding, Flag, JobState, RunKey, Severity
from ckptd.core.model.records import JobRow
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.errors import CkptdError
from ckptd.present.labels import title_of
from ckptd.web.cache import RatedJob, RatedRun, fold
from ckptd.web.lost_work_reports import Period

LONGEST_TEXT = 4096  # as long as a path may be
LONGEST_FILTER = 256
LONGEST_ADDRESS = 60_000
LARGEST_LIMIT = 1000
LARGEST_ID = 2**32 - 1
LARGEST_JOB_ID = 10**10 - 1  # ten digits, as ids of a federation have
LARGEST_OFFSET = 10_000_000
_TEXTS = frozenset({"q", "user", "partition", "rule", "cluster", "directory"})
_EPOCH = datetime.min.replace(tzinfo=UTC)
Item = TypeVar("Item")


class AddressError(CkptdError):
    """The address has an invalid parameter; the text names it."""


def read_parameters(query: bytes, known: Iterable[str], *, is_form: bool = False) -> dict[str, str]:
    """Split an address's query; empty values count as absent, because forms send them for empty fields.

    Raises:
        AddressError: a parameter is unknown, repeated or too long.

    """
    if len(query) > LONGEST_ADDRESS:
        raise AddressError("the address is too long")
    found: dict[str, str] = {}
    names = list(known)
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="surrogateescape"):
        if name not in names:
            raise AddressError(f"{name[:40]!a}: there is no such parameter; there are {', '.join(names) or 'none'}")
        if name in found:
            raise AddressError(f"{name}: given twice")
        if len(value) > (longest := LONGEST_TEXT if name == "directory" else LONGEST_FILTER):
            raise AddressError(f"{name}: longer than {longest} characters")
        if value or not (is_form or name in _TEXTS):
            found[name] = value
    return found


def _by_job(row: JobRow) -> Any:
    return row.key.job_id


def _by_user(row: JobRow) -> Any:
    return row.user, row.key.job_id


def _by_time_left(row: JobRow) -> Any:
    return timedelta.max if row.time_left is None else row.time_left


def _by_save(row: JobRow) -> Any:
    return row.newest_checkpoint_at or _EPOCH


ORDERS: Mapping[str, Callable[[JobRow], Any] | None] = {
    "flags": None,  # as the fleet is kept: the worst first
    "time_left": _by_time_left,
    "saved": _by_save,
    "job": _by_job,
    "user": _by_user,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """The filters and order of a list; None: no filter."""

    q: str | None = None
    cluster: str | None = None
    user: str | None = None
    partition: str | None = None
    state: JobState | None = None
    rule: str | None = None
    severity: Severity | None = None  # this or worse
    sort: str = "flags"
    offset: int = 0
    limit: int = 100

    def address(self, **changes: Any) -> str:
        """Return the query of an address with these filters and the given changes."""
        asked = replace(self, **changes)
        pairs = [
            (each.name, getattr(asked, each.name))
            for each in fields(self)
            if getattr(asked, each.name) not in {None, each.default}
        ]
        return "?" + urlencode(pairs, errors="surrogateescape")


JOB_PARAMETERS = tuple(each.name for each in fields(Query))
FLAG_PARAMETERS = ("q", "cluster", "user", "rule", "severity", "offset", "limit")


def parse_query(parameters: Mapping[str, str], *, limit: int = 100) -> Query:
    """Parse the filters and order.

    Raises:
        AddressError: a parameter has an invalid value; the text names it.

    """
    sort = parameters.get("sort", "flags")
    if sort not in ORDERS:
        raise AddressError(f"sort: one of {', '.join(ORDERS)}")
    return Query(
        q=parameters.get("q"),
        cluster=parameters.get("cluster"),
        user=parameters.get("user"),
        partition=parameters.get("partition"),
        state=_word(JobState, parameters, "state"),
        rule=parameters.get("rule"),
        severity=_word(Severity, parameters, "severity"),
        sort=sort,
        offset=whole_number(parameters, "offset", 0, LARGEST_OFFSET, 0),
        limit=whole_number(parameters, "limit", 1, LARGEST_LIMIT, limit),
    )


Word = TypeVar("Word", JobState, Severity, GroupedBy, Period)


def _word(kind: type[Word], parameters: Mapping[str, str], name: str) -> Word | None:
    if name not in parameters:
        return None
    try:
        return kind(parameters[name])
    except ValueError as error:
        raise AddressError(f"{name}: one of {', '.join(kind)}") from error


def whole_number(parameters: Mapping[str, str], name: str, least: int, most: int, default: int | None) -> int:
    """Parse a whole number in decimal digits.

    Raises:
        AddressError: it is not a number, out of bounds, or absent without a default.

    """
    text = parameters.get(name)
    if text is None and default is not None:
        return default
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= 20
    if text is None or not is_number or not least <= int(text) <= most:
        raise AddressError(f"{name}: a whole number from {least} to {most}")
    return int(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[Item]):
    """One page of a list, and the length of the whole list."""

    items: list[Item] = field(default_factory=list)
    total: int


def select_jobs(jobs: Iterable[RatedJob], query: Query) -> Page[RatedJob]:
    """Return the jobs that match a query."""
    found = [job for job in jobs if _asks_job(query, job)]
    if order := ORDERS[query.sort]:
        found.sort(key=lambda job: order(job.row))
    return Page(items=found[query.offset : query.offset + query.limit], total=len(found))


def select_runs(runs: Iterable[RatedRun], query: Query, *, is_folding: bool = False) -> Page[RatedRun]:
    """Return the runs with a job that matches a query, ordered by that job.

    With folding, the tasks of an array without a directory are one run, unless the query has a search text.
    """
    found = [run for run in runs if any(_asks_job(query, job) for job in run.jobs)]
    if order := ORDERS[query.sort]:
        found.sort(key=lambda run: min(order(job.row) for job in run.jobs))
    if is_folding and query.q is None:
        found = fold(found)
    return Page(items=found[query.offset : query.offset + query.limit], total=len(found))


def select_flags(flags: Iterable[Flag], query: Query) -> Page[Flag]:
    """Return the flags that match a query."""
    found = [flag for flag in flags if _asks_flag(query, flag)]
    return Page(items=found[query.offset : query.offset + query.limit], total=len(found))


def _asks_job(query: Query, job: RatedJob) -> bool:
    row = job.row
    return (
        (query.cluster is None or row.key.cluster == query.cluster)
        and (query.user is None or row.user == query.user)
        and (query.partition is None or row.partition == query.partition)
        and (query.state is None or row.state is query.state)
        and (query.rule is None or query.rule in row.flags)
        and _is_as_bad(query, job.severity)
        and (query.q is None or _holds(query.q, row.name, row.user, row.directory, row.key.job_id, row.array_job_id))
    )


def _asks_flag(query: Query, flag: Flag) -> bool:
    finding = flag.finding
    return (
        (query.cluster is None or finding.run.cluster == query.cluster)
        and (query.user is None or finding.user == query.user)
        and (query.rule is None or finding.rule == query.rule)
        and _is_as_bad(query, finding.severity)
        and (query.q is None or _holds(query.q, *_words_of(finding)))
    )


def _words_of(finding: Finding) -> tuple[object, ...]:
    return finding.rule, title_of(finding.rule), finding.user, finding.run.directory, finding.job_id


def _is_as_bad(query: Query, severity: Severity | None) -> bool:
    return query.severity is None or (severity is not None and severity.rank >= query.severity.rank)


def _holds(sought: str, *values: object) -> bool:
    lowered = sought.casefold()
    return any(lowered in str(value).casefold() for value in values if value is not None)


LOST_WORK_PARAMETERS = ("by", "period", "cluster")
CLUSTER_PARAMETERS = ("cluster",)


class ClusterLink(NamedTuple):
    """A link that shows a page for one cluster, or for all where the name is None."""

    name: str | None
    address: str


def link_clusters(names: Iterable[str], address: Callable[[str | None], str]) -> list[ClusterLink]:
    """Return the links between the clusters on record; none where there is only one."""
    found = list(names)
    return [ClusterLink(name, address(name)) for name in (None, *found)] if len(found) > 1 else []


def make_address(**parameters: str | None) -> str:
    """Return the query of an address with the parameters that are not None."""
    return "?" + urlencode({name: value for name, value in parameters.items() if value is not None})


def parse_lost_work(parameters: Mapping[str, str]) -> tuple[GroupedBy, Period]:
    """Parse what a report on lost work is about.

    Raises:
        AddressError: a parameter has an invalid value; the text names it.

    """
    by = _word(GroupedBy, parameters, "by") or GroupedBy.CAUSE
    return by, _word(Period, parameters, "period") or Period.WEEK


def parse_job(named: str) -> tuple[int, int | None]:
    """Parse the job that an address names: its id, or `ARRAY_TASK` for an array task.

    Raises:
        AddressError: it is neither.

    """
    job_id, bar, task_id = named.partition("_")
    parameters = {"job": job_id, "array task": task_id}
    task = whole_number(parameters, "array task", 0, LARGEST_JOB_ID, None) if bar else None
    return whole_number(parameters, "job", 1, LARGEST_JOB_ID, None), task


RUN_PARAMETERS = ("cluster", "uid", "directory")


def parse_run(parameters: Mapping[str, str]) -> RunKey:
    """Parse which run an address names.

    Raises:
        AddressError: a part is missing or wrong.

    """
    for name in ("cluster", "directory"):
        if name not in parameters:
            raise AddressError(f"{name}: missing")
    return RunKey(parameters["cluster"], whole_number(parameters, "uid", 0, LARGEST_ID, None), parameters["directory"])


def run_address(run: RunKey) -> str:
    """Return the query that `parse_run` parses."""
    pairs = {"cluster": run.cluster, "uid": run.uid, "directory": run.directory}
    return "?" + urlencode(pairs, safe="/", errors="surrogateescape")
