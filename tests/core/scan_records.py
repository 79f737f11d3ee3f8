"""What tests of scans begin with: attempts, and checkpoints as a first scan records them."""

from dataclasses import replace

from support.queue_facts import at, follow, look, make_job, make_scan, merge


def make_attempt(started=-1, ended=None):
    _, tracked = follow(look(started + 1, make_job(1, started_at=at(started))))
    return replace(tracked[1].attempt, ended_at=None if ended is None else at(ended))


def credit_of(attempt):
    return attempt.job, attempt.restart_count


def record(*checkpoints, seen=1):
    return merge((), make_scan(seen, *checkpoints)).appeared
