"""The rules about jobs without a checkpoint: after a restart, or after a long time."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.health.at_risk import AtRisk
from ckptd.core.health.checkpoints_not_located import CheckpointsNotLocated
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.not_resuming import NotResuming
from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.model import (
    Attempt,
    Certainty,
    CheckpointState,
    EndCause,
    JobState,
    LimitSignal,
    RestartKind,
    Resume,
    ResumeReason,
    RunKey,
    Scan,
    Severity,
    Suspension,
    Unknown,
    UserSettings,
)
from core.histories import REQUEUED, RUN, at, attempt, history, job, limited, saved, scan_at, text_of

RESTARTED = {
    "the first attempt": (history(now=70), None),
    "nothing was saved": (history(now=70, attempts=REQUEUED), "none"),
    "a checkpoint was there": (history(now=70, attempts=REQUEUED, checkpoints=[saved(50, step=5)]), None),
    "only a damaged one was there": (
        history(now=70, attempts=REQUEUED, checkpoints=[saved(50, state=CheckpointState.DAMAGED)]),
        "damaged",
    ),
    "only an unreadable one was there": (
        history(now=70, attempts=REQUEUED, checkpoints=[saved(50, state=CheckpointState.UNKNOWN)]),
        "unreadable",
    ),
    "only an unfinished save was there": (
        history(now=70, attempts=REQUEUED, checkpoints=[saved(59, state=CheckpointState.WRITING)]),
        "unfinished",
    ),
    "it was removed before the restart": (
        history(now=70, attempts=REQUEUED, checkpoints=[saved(50, step=5, gone=55)]),
        "none",
    ),
    "it was replaced after the restart": (
        history(now=70, attempts=REQUEUED, checkpoints=[saved(50, step=5, gone=66), saved(66, step=6)]),
        None,
    ),
    "the restarted attempt has saved since": (
        history(now=90, attempts=REQUEUED, checkpoints=[saved(80, step=5)]),
        None,
    ),
    "the job waits for its restart": (
        history(now=61, attempts=REQUEUED[:1], jobs=[job(state=JobState.PENDING, restart_count=1)]),
        None,
    ),
    "the earlier attempts together had run for long": (
        history(
            now=40,
            attempts=(attempt(0, 7), attempt(8, 15, restart_count=1), attempt(16, restart_count=2)),
        ),
        "none",
    ),
    "the earlier attempt had run for a moment": (
        history(now=40, attempts=(attempt(0, 0.3), attempt(2, restart_count=1))),
        None,
    ),
    "it had been suspended for most of its time": (
        history(
            now=70,
            attempts=(
                replace(REQUEUED[0], suspensions=(Suspension(at(3), at(58)),)),
                REQUEUED[1],
            ),
        ),
        None,
    ),
    "nobody saw how long the earlier attempts had run": (
        history(now=40, attempts=[attempt(2, restart_count=1)]),
        "none",
    ),
    "nobody saw one of them": (
        history(now=40, attempts=(attempt(0, 0.3), attempt(2, restart_count=2))),
        "none",
    ),
    "what is left is older than the attempts on record": (
        history(
            now=40,
            attempts=(attempt(0, 0.3), attempt(2, restart_count=1)),
            checkpoints=[saved(-60, state=CheckpointState.DAMAGED)],
        ),
        "damaged",
    ),
    "the next task of an array": (
        history(
            now=70,
            jobs=[job(2)],
            attempts=(attempt(0, 60), attempt(62, job_id=2, kind=RestartKind.ARRAY)),
        ),
        "none",
    ),
    "another task of its array runs since long before": (
        history(
            now=70,
            jobs=[job(1), job(2)],
            attempts=(attempt(0), attempt(60, job_id=2, kind=RestartKind.ARRAY)),
        ),
        None,
    ),
    "the earlier job's end is known a moment after the start of the next": (
        history(
            now=70,
            jobs=[job(2)],
            attempts=(attempt(0, 60), attempt(59, job_id=2, kind=RestartKind.ARRAY)),
        ),
        "none",
    ),
    "tasks of an array that began at one instant": (
        history(
            now=70,
            jobs=[job(1), job(2), job(3)],
            attempts=(
                attempt(0),
                attempt(0, job_id=2, kind=RestartKind.ARRAY),
                attempt(0, job_id=3, kind=RestartKind.ARRAY),
            ),
        ),
        None,
    ),
}


@pytest.mark.parametrize(("given", "found"), RESTARTED.values(), ids=RESTARTED)
def test_a_restart_is_flagged_where_nothing_complete_was_there_and_work_was_lost(given, found):
    findings = list(RestartedWithoutCheckpoint().evaluate(given, at(200)))
    assert [finding.evidence["found"] for finding in findings] == ([found] if found else [])
    assert all(finding.severity is Severity.CRITICAL for finding in findings)


def test_of_tasks_that_ran_side_by_side_each_lost_only_its_own_work():
    first = [attempt(number / 10, 60, job_id=number) for number in (1, 2, 3)]
    again = [attempt(62, restart_count=1, job_id=number) for number in (1, 2, 3)]
    given = history(now=70, jobs=[job(number, restart_count=1) for number in (1, 2, 3)], attempts=(*first, *again))
    findings = RestartedWithoutCheckpoint().evaluate(given, at(70))
    lost = {finding.job_id: finding.evidence["earlier_run_time_seconds"] for finding in findings}
    assert lost == {1: 3594, 2: 3588, 3: 3582}


def test_the_site_says_from_which_loss_on_a_restart_from_nothing_is_told():
    given = history(now=40, attempts=(attempt(0, 0.5), attempt(2, restart_count=1)))
    [finding] = RestartedWithoutCheckpoint(min_loss=timedelta(seconds=30)).evaluate(given, at(40))
    assert finding.evidence["earlier_run_time_seconds"] == 30
    assert list(RestartedWithoutCheckpoint(min_loss=timedelta(seconds=31)).evaluate(given, at(40))) == []


def cut_short(count, cause=EndCause.PREEMPTION):
    ended = [attempt(13 * n, 13 * n + 4 + n, restart_count=n, cause=cause) for n in range(count)]
    return [*ended, attempt(13 * count, restart_count=count)]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        (cut_short(4), (4, 7 * 60)),
        (cut_short(4, EndCause.REQUEUE), (4, 7 * 60)),
        (cut_short(4, EndCause.FAILURE), (0, None)),
        ([replace(cut_short(4)[0], cause=EndCause.FAILURE), *cut_short(4)[1:]], (3, 7 * 60)),
    ],
    ids=["preempted", "requeued", "failed by itself", "the first failed by itself"],
)
@pytest.mark.parametrize("key", [RUN, RUN._replace(directory="job:1@x")], ids=["located", "nobody knows where"])
def test_a_restart_from_nothing_tells_how_often_the_job_was_cut_short_before_its_first_save(attempts, expected, key):
    given = history(now=60, key=key, attempts=attempts, jobs=[job(work_dir=PurePosixPath("/home/alice"))])
    [finding] = RestartedWithoutCheckpoint().evaluate(given, at(60))
    assert (finding.evidence["interrupted_attempts"], finding.evidence["longest_seconds"]) == expected
    is_told = "attempts were requeued, preempted or ended by a node failure before" in text_of(finding)
    assert is_told == (expected[0] >= 3)
    assert ("--signal=B:TERM@600" in text_of(finding)) == is_told


@pytest.mark.parametrize(("located_by", "is_told_to_name_it"), [("comment", False), ("discovery", True)])
def test_a_job_that_names_its_directory_is_not_asked_to_name_it(located_by, is_told_to_name_it):
    attempts = (attempt(0, 60), attempt(62, restart_count=1))
    [finding] = RestartedWithoutCheckpoint().evaluate(
        history(now=70, attempts=attempts, located_by=located_by), at(200)
    )
    assert ("--comment=ckpt=PATH" in text_of(finding)) == is_told_to_name_it


def test_a_directory_that_was_not_read_whole_says_nothing_about_absence():
    scan = Scan(
        directory=history().scan.directory,
        scanned_at=at(70),
        checkpoints=(),
        problems=(Unknown(what="a", reason="Permission denied"),),
    )
    for rule in (RestartedWithoutCheckpoint(), NoCheckpointYet(), AtRisk()):
        for blind in (scan, Unknown(what="directory", reason="it did not answer in time"), None):
            attempts = REQUEUED if not isinstance(rule, NoCheckpointYet) else (attempt(0),)
            assert isinstance(rule.evaluate(history(now=70, attempts=attempts, scan=blind), at(70)), Unknown)


def test_that_a_first_attempt_has_ended_is_known_without_a_look_at_any_directory():
    blind = Unknown(what="search", reason="nobody can tell whose it is")
    assert NoCheckpointYet().evaluate(history(now=70, attempts=REQUEUED, scan=blind), at(70)) == ()


SOON_REQUEUED = (attempt(0, 0.3), attempt(2, restart_count=1))


NOT_YET = {
    "an hour has not passed": (history(now=59), 59, False),
    "an hour has passed": (history(now=61), 61, True),
    "a quarter of a short limit has passed": (history(now=20, jobs=[limited(60)]), 20, True),
    "no limit counts as an hour": (history(now=61, jobs=[job(time_limit=None)]), 61, True),
    "something was saved": (history(now=61, checkpoints=[saved(30, step=1)]), 61, False),
    "something is being written": (history(now=61, checkpoints=[saved(61, state=CheckpointState.WRITING)]), 61, False),
    "a restart is another rule's": (history(now=161, attempts=REQUEUED), 161, False),
    "it is suspended": (history(now=61, jobs=[job(state=JobState.SUSPENDED)]), 61, False),
    "all before the restart was a moment": (history(now=63, attempts=SOON_REQUEUED), 63, True),
    "the restart has not run for an hour": (history(now=61, attempts=SOON_REQUEUED), 61, False),
    "the restart had something to load, which is gone": (
        history(now=63, attempts=SOON_REQUEUED, checkpoints=[saved(0.2, step=1, gone=30)]),
        63,
        False,
    ),
    "what the moment before it left half written is no save": (
        history(now=63, attempts=SOON_REQUEUED, checkpoints=[saved(0.2, state=CheckpointState.WRITING)]),
        63,
        True,
    ),
    "the restart is writing": (
        history(now=63, attempts=SOON_REQUEUED, checkpoints=[saved(60, state=CheckpointState.WRITING)]),
        63,
        False,
    ),
    "nobody saw how long all before the restart was": (
        history(now=63, attempts=[attempt(2, restart_count=1)]),
        63,
        False,
    ),
}


@pytest.mark.parametrize(("given", "minute", "holds"), NOT_YET.values(), ids=NOT_YET)
def test_an_attempt_that_has_saved_nothing_is_flagged_in_time(given, minute, holds):
    assert bool(list(NoCheckpointYet().evaluate(given, at(minute)))) == holds


SIGNALLED = {
    "its script asks for a signal": ({"signals": {1: LimitSignal("B:USR1", 300)}}, 100, Severity.INFO),
    "the signal came and nothing was saved": ({"signals": {1: LimitSignal("B:USR1", 300)}}, 297, Severity.WARNING),
    "ckptd signals it": ({"signalled": {1: timedelta(minutes=5)}}, 100, Severity.INFO),
    "its user says that it saves on a signal": (
        {"user_settings": UserSettings(saves_on_signal=True)},
        100,
        Severity.INFO,
    ),
    "another job is signalled": ({"signals": {2: LimitSignal("B:USR1", 300)}}, 100, Severity.WARNING),
}


@pytest.mark.parametrize(("facts", "minute", "severity"), SIGNALLED.values(), ids=SIGNALLED)
def test_a_job_that_may_save_only_when_it_is_signalled_is_not_late_before(facts, minute, severity):
    [finding] = NoCheckpointYet().evaluate(history(now=minute, jobs=[limited(300)], **facts), at(minute))
    assert finding.severity is severity
    assert ("gets a signal before its time limit, and may save only then" in text_of(finding)) == (
        severity is Severity.INFO
    )


def test_a_job_without_a_limit_gets_no_signal():
    given = history(now=61, jobs=[job(time_limit=None)], signals={1: LimitSignal("B:USR1", 300)})
    [finding] = NoCheckpointYet().evaluate(given, at(61))
    assert finding.severity is Severity.WARNING


def resubmitted(*minutes, cause=EndCause.CANCEL, saves_after=9):
    """Jobs that a person submits one after the other, each of which saves epoch 1 and is cancelled."""
    attempts: list[Attempt] = []
    checkpoints = []
    start = 0
    for number, ran in enumerate(minutes, 1):
        kind = RestartKind.RESUBMIT if attempts else None
        is_last = number == len(minutes)
        attempts.append(attempt(start, None if is_last else start + ran, job_id=number, kind=kind, cause=cause))
        fresh = Resume(certainty=Certainty.INFERRED, reason=ResumeReason.PROGRESS)
        attempts[-1] = replace(attempts[-1], resumed_from=fresh)
        gone = None if is_last else start + ran + 10 + saves_after
        checkpoints.append(saved(start + saves_after, name="epoch_1.pt", epoch=1, gone=gone))
        start += ran + 10
    begun = start - minutes[-1] - 10
    own = job(len(minutes), submitted_at=at(begun - 1), started_at=at(begun))
    return history(now=start - 10, jobs=[own], attempts=attempts, checkpoints=checkpoints)


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        (resubmitted(12, 12, 12, 12), None),
        (resubmitted(1, 1, 1, 1, saves_after=0.5), None),
        (resubmitted(30, 30, 30, saves_after=25), Severity.WARNING),
        (resubmitted(12, 12, 12, cause=EndCause.FAILURE), None),
        (resubmitted(12, 12, 12, cause=EndCause.TIME_LIMIT), Severity.CRITICAL),
    ],
    ids=["cancelled", "cancelled after a minute", "more work is done again", "failed", "not ended by its user"],
)
def test_a_person_who_starts_a_short_job_again_and_again_knows_that_it_begins_anew(given, severity):
    found = NotResuming().evaluate(given, given.scan.scanned_at)
    assert [each.severity for each in found] == ([severity] if severity else [])


def test_the_advice_on_a_job_that_saves_nothing_names_where_was_looked_and_what_to_do_now():
    [finding] = NoCheckpointYet().evaluate(history(now=61), at(61))
    assert f"No checkpoint has been saved in {RUN.directory} since" in text_of(finding)
    assert "saves elsewhere, name that directory for the next job: --comment=ckpt=PATH or" in text_of(finding)
    assert "tell ckptd: scontrol update JobId=1 Comment=ckpt=none" in text_of(finding)
    unlocated = replace(history(now=61), key=NOWHERE, located_by=None, has_saved_before=True)
    [finding] = NoCheckpointYet().evaluate(unlocated, at(61))
    assert "No checkpoint of this job has been found since it started." in text_of(finding)
    assert (
        "name their directory for later jobs (--comment=ckpt=PATH or `directory` in .ckptd.toml) and for this one "
        "(this replaces the job's comment): scontrol update JobId=1 Comment=ckpt=PATH" in text_of(finding)
    )


NOWHERE = RunKey(RUN.cluster, RUN.uid, "job:1@20200101T000000Z")
EXPECTED = {
    "nobody says that it checkpoints": ({}, False),
    "another job of its name and place has": ({"has_saved_before": True}, True),
    "its script names a directory": ({"is_named_by_script": True}, True),
    "its comment names a directory": ({"jobs": [job(comment="ckpt=saves")]}, True),
    "its user names a directory": ({"user_settings": UserSettings(directory="saves")}, True),
    "its user sets a goal": ({"user_settings": UserSettings(goal_epoch=90)}, True),
    "its user says that it saves on a signal": ({"user_settings": UserSettings(saves_on_signal=True)}, True),
}


@pytest.mark.parametrize(("facts", "is_expected"), EXPECTED.values(), ids=EXPECTED)
def test_only_a_job_that_is_expected_to_checkpoint_is_asked_for_one(facts, is_expected):
    given = history(now=61, key=NOWHERE, located_by=None, **facts)
    assert bool(list(NoCheckpointYet().evaluate(given, at(61)))) == is_expected


def test_a_restart_whose_directory_nobody_named_is_a_warning_that_claims_no_loss():
    own = job(work_dir=PurePosixPath("/home/alice"))
    given = history(now=70, attempts=REQUEUED, key=NOWHERE, located_by=None, jobs=[own])
    [finding] = RestartedWithoutCheckpoint().evaluate(given, at(70))
    assert finding.severity is Severity.WARNING
    assert text_of(finding).startswith(
        "This job may have restarted without a checkpoint: ckptd found none in /home/alice. If the job saves nowhere "
        "else, up to 1 h of earlier work is lost."
    )
    assert list(CheckpointsNotLocated().evaluate(given, at(70))) == []


def test_a_restart_whose_named_directory_does_not_exist_is_critical():
    given = history(
        now=70, attempts=REQUEUED, key=NOWHERE, located_by=None, jobs=[job(comment="ckpt=/scratch/alice/ck")]
    )
    [finding] = RestartedWithoutCheckpoint().evaluate(given, at(70))
    assert finding.severity is Severity.CRITICAL
    assert "/scratch/alice/ck, named as its checkpoint directory, does not exist" in text_of(finding)


def test_a_restart_that_nobody_can_judge_is_told_as_such_and_claims_no_loss():
    blind = replace(scan_at(70), problems=(Unknown(what="search", reason="the batch script names $RUNS/ck"),))
    given = history(now=70, attempts=REQUEUED, key=NOWHERE, located_by=None, scan=blind)
    assert isinstance(RestartedWithoutCheckpoint().evaluate(given, at(70)), Unknown)
    [finding] = CheckpointsNotLocated().evaluate(given, at(70))
    assert (finding.severity, finding.evidence["reason"]) == (Severity.INFO, "the batch script names $RUNS/ck")
    assert "it cannot tell whether the job resumed: the batch script names $RUNS/ck." in text_of(finding)
    assert "lost" not in text_of(finding)
    assert list(CheckpointsNotLocated().evaluate(replace(given, attempts=REQUEUED[:1]), at(70))) == []
    short = (attempt(0, 5), attempt(6, restart_count=1))
    assert list(CheckpointsNotLocated().evaluate(replace(given, attempts=short), at(70))) == []
