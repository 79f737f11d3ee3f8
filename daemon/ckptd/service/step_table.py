"""The daemon's table: each step, what runs it and how often. `ckptd once` and the tests run the same table."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ckptd.service import freed_memory, gc_tuning
from ckptd.steps import (
    act,
    backfill,
    check_purges,
    decide,
    expire,
    follow_verifications,
    housekeeping,
    poll,
    publish,
    remind,
    scan,
    scan_on_nodes,
    send,
    share,
)
from ckptd.steps.parts import Parts, Runner
from ckptd.steps.prune import step as prune
from ckptd.steps.results import StepResult
from ckptd.steps.state import State

Run = Callable[[Parts, State, datetime], StepResult]


def _every(**interval: float) -> Callable[[Parts], timedelta]:
    fixed = timedelta(**interval)
    return lambda _parts: fixed


def _do_nothing(*_arguments: object) -> None:
    return


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the table."""

    name: str
    run: Run
    interval: Callable[[Parts], timedelta]
    once: int = 1  # times that `ckptd once` runs it
    begin: Callable[[Parts, State, datetime], None] = _do_nothing  # before any step runs
    change_parts: Callable[[Parts, State, datetime], None] = _do_nothing  # after a reload
    stop: Callable[[State, float], None] = _do_nothing  # waits until work that must not be interrupted has ended
    first_delay: timedelta = timedelta(0)  # after a start, so that a wrong clock can be corrected before
    has_own_thread: bool = False  # it may wait long, and must not delay other steps
    is_recording: bool = False  # it fails if the database does not answer


def _read_prune_interval(parts: Parts) -> timedelta:
    assert parts.retention is not None
    return parts.retention.interval


def _collect_garbage(_parts: Parts, _state: State, _now: datetime) -> StepResult:
    gc_tuning.collect()
    return StepResult()


EXPIRE = "expire"
TABLE = (
    Step("poll", poll.run, lambda parts: parts.poll_interval, is_recording=True),
    Step("backfill", backfill.run, _every(seconds=5)),
    Step("share", share.run, lambda parts: parts.poll_interval, begin=share.begin),
    # twice: the second scans directories that the first found
    Step("scan", scan.run, _every(seconds=1), once=2, change_parts=scan.change_parts),
    Step("scan-on-nodes", scan_on_nodes.run, lambda _parts: scan_on_nodes.INTERVAL, once=0, has_own_thread=True),
    Step(
        "check-purges",
        check_purges.run,
        _every(minutes=1),
        change_parts=check_purges.change_parts,
        has_own_thread=True,
    ),
    Step("decide", decide.run, _every(seconds=1), is_recording=True),
    Step("act", act.run, _every(seconds=5), once=0),
    Step("prune", prune.run, _read_prune_interval, once=0, begin=prune.begin, stop=prune.stop),
    Step("verify", follow_verifications.run, lambda _parts: follow_verifications.INTERVAL, once=0, has_own_thread=True),
    Step("remind", remind.run, _every(hours=1)),
    Step("send", send.run, _every(seconds=5), change_parts=send.change_parts, stop=send.stop, has_own_thread=True),
    Step("housekeeping", housekeeping.run, _every(seconds=30), is_recording=True),
    Step("publish", publish.run, _every(seconds=5), is_recording=True),
    Step(EXPIRE, expire.run, _every(days=1), first_delay=timedelta(hours=1)),
    Step("collect-garbage", _collect_garbage, _every(hours=1), once=0),
    Step("release-memory", freed_memory.run, _every(minutes=2), once=0),
)
STEPS = {step.name: step for step in TABLE}


def make_runner(**changes: Any) -> Runner:
    """Return a runner through which a step can request the work of another step."""
    wired = {"poll": _poll, "search": scan.search_new, "scan": scan.scan_again}
    return Runner(**{**wired, **changes})


def run_once(
    parts: Parts,
    state: State,
    now: datetime,
    *,
    expires: Callable[[], bool] = lambda: False,
    write: Callable[[StepResult], None] = _do_nothing,
) -> None:
    """Run every step of the table once, and write its log lines.

    At the end, old records are deleted if `expires` returns true.
    """
    decide.await_no_scan(state)
    for step in TABLE:
        for _ in range(step.once):
            if step.name != EXPIRE or expires():
                write(result := step.run(parts, state, now))
                while result.is_unfinished:
                    write(result := step.run(parts, state, now))


def _poll(parts: Parts, state: State) -> None:
    poll.poll_now(parts, state, parts.runner.read_time())
