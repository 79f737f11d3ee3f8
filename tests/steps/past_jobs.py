"""Jobs that ran and ended while the daemon was away, as accounting tells of them afterwards."""

from ckptd.core.model import EndCause, RestartKind, Unknown
from support.queue_facts import CLUSTER, RUN, STATES, at, make_job, make_past, make_row

DOWN = Unknown(what="accounting", reason="failed: slurmdbd does not answer")
FOURTH = make_job(4, submitted_at=at(51), started_at=at(52), ends_at=at(200))
THREE = (
    make_past(2, 25, 30, STATES.REQUEUED),
    make_past(2, 32, 40, STATES.TIMEOUT, submitted=30),
    make_past(3, 45, 50, STATES.FAILED),
)
ALL = [
    (1, 0, None, EndCause.NODE_FAILURE),
    (2, 0, RestartKind.RESUBMIT, EndCause.REQUEUE),
    (2, 1, RestartKind.REQUEUE, EndCause.TIME_LIMIT),
    (3, 0, RestartKind.RESUBMIT, EndCause.FAILURE),
    (4, 0, RestartKind.RESUBMIT, None),
]


def came_and_went(lives):
    """Job 1 ended while nobody looked, 2 and 3 came and went, and 4 runs when the daemon is back."""
    lives(0).run(0, make_job(1))
    second = lives(60)
    second.parts.source.ended = (make_row(1, -1, 20, STATES.NODE_FAIL),)
    second.parts.source.past = THREE
    return second


def attempts(service):
    [history] = service.parts.store.histories.read(CLUSTER, [RUN])
    return [(a.job.job_id, a.restart_count, a.kind, a.cause) for a in history.attempts]
