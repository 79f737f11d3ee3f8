"""A run goes on with its own script, once for each end, whatever comes between."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.checkpoints.agent.client import SILENCE
from ckptd.core.job_actions import sbatch_command
from ckptd.core.model import Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.slurm import commands
from ckptd.steps import act
from ckptd.steps.interrupted_actions import AbsenceProof
from core.histories import RUN, at
from support.job_action_facts import AWAY, FINISHED, SCRIPT, SHOWN, TIMED_OUT, WISHING, Ended, resubmit

SHOWN_VALUES = {"ExcNodeList": "n7", "MailUser": "alice", "MailType": "END", "StdOut": "/home/alice/my out"}


def test_a_job_is_submitted_again_with_its_script_in_its_directory_and_the_command_is_on_record(resubmitting):
    slurm = Ended()
    parts = resubmitting(slurm)
    assert resubmit(parts) == ["submitted job 77"]
    (item,) = slurm.submitted
    assert (item["input"], item["directory"], item["argv"][-1]) == (SCRIPT, "/home/alice", "--cpus-per-task=3")
    assert item["like"] == "/home/alice/my out"
    (entry,) = parts.store.audit.list_newest("c1")
    assert (entry.outcome, entry.details["command"]) == ("submitted job 77", item["argv"])
    assert resubmit(parts) == []


@pytest.mark.parametrize(
    ("slurm", "reason"),
    [
        (Ended(script=""), "failed: Slurm printed no batch script"),
        (Ended(refused=("scontrol",)), "failed: scontrol ended with 1"),
        (Ended(refused=("squeue",)), "failed: squeue ended with 1"),
        (Ended("sbatch x a  b", command="/x a  b"), "failed: the arguments of its script cannot be parsed"),
    ],
)
def test_nothing_is_submitted_where_slurm_does_not_tell_what(resubmitting, slurm, reason):
    parts = resubmitting(slurm)
    assert resubmit(parts) == [reason]
    assert slurm.submitted == []
    assert resubmit(parts) == []


SILENT = "squeue ended with 1: slurm_load_jobs error: Socket timed out on send/recv operation"


@pytest.mark.parametrize(
    ("program", "reason", "is_tried_again"),
    [
        ("scontrol", AWAY, True),
        ("squeue", SILENT, True),
        ("sbatch", "sbatch ended with 1: Unable to contact slurm controller (connect failure)", True),
        ("sbatch", "sbatch ended with 1: Unable to contact slurm controller (receive failure)", False),
        ("sbatch", "sbatch ended with 1: Socket timed out on send/recv operation", False),
    ],
)
def test_what_cannot_have_been_done_while_slurm_was_away_is_tried_again(resubmitting, program, reason, is_tried_again):
    class Away(Ended):
        def answer(self, item):
            if item["argv"][0] == program:
                return Unknown(what="command", reason=reason)
            return super().answer(item)

    parts, back = resubmitting(Away()), Ended()
    assert resubmit(parts) == [f"failed: {reason}"]
    assert resubmit(replace(parts, agent=back)) == (["submitted job 77"] if is_tried_again else [])
    outcomes = parts.store.audit.read_outcomes("c1", "resubmit-job", [RUN])[RUN]
    assert len(outcomes) == 1, "what was not done counts for nothing"
    assert len(parts.store.audit.list_newest("c1")) == (2 if is_tried_again else 1)


def test_that_slurm_does_not_know_the_job_any_more_is_a_failure_where_it_is_to_go_on(resubmitting):
    class Forgot(Ended):
        def answer(self, item):
            return Unknown(what="command", reason="failed: Invalid job id specified")

    assert resubmit(resubmitting(Forgot())) == ["failed: Invalid job id specified"]


def test_without_accounting_the_attributes_are_enough(resubmitting):
    slurm = Ended(refused=("sacct",))
    (outcome,) = resubmit(resubmitting(slurm))
    (item,) = slurm.submitted
    assert {"--exclude=n7", "--mail-user=alice", "--mail-type=END"} <= set(item["argv"])
    assert outcome == "submitted job 77; accounting has no submit line of the job before it"


@pytest.mark.parametrize(
    "forged",
    [
        "JobName=x\n   ReqNodeList=n1 ExcNodeList=n2\n",
        "Comment=x\n   MailUser=eve MailType=ALL\n",
    ],
)
def test_what_scontrol_shows_is_not_believed_where_text_of_the_user_pretends_to_be_it(forged):
    assert commands.parse_shown(SHOWN) == SHOWN_VALUES
    assert isinstance(commands.parse_shown(f"JobId=1 {forged}{SHOWN}"), Unknown)


def test_a_directory_that_hangs_keeps_nobody_waiting_and_the_job_goes_on_once_it_answers(resubmitting):
    class Hanging(Ended):
        def answer(self, item):
            return SILENCE if "directory" in item else super().answer(item)

    hanging, slurm = Hanging(), Ended()
    parts = resubmitting(hanging)
    assert (resubmit(parts), hanging.submitted, parts.store.audit.list_newest("c1")) == ([], [], ())
    assert resubmit(resubmitting(slurm)) == ["submitted job 77"]


def test_a_job_with_the_mark_of_an_act_is_not_submitted_a_second_time_though_the_record_was_lost(resubmitting):
    first, second = Ended(), Ended()
    resubmit(resubmitting(first))
    marked = marks_of(first.submitted)
    parts = resubmitting(second)
    assert marked == {(1000, sbatch_command.name_end(TIMED_OUT)): 77}
    lost = replace(parts, store=Forgetful(parts.store))
    assert resubmit(lost, marked) == ["submitted job 77"]
    assert second.submitted == []
    assert resubmit(lost, {(1001, mark): job_id for (_, mark), job_id in marked.items()}) == ["submitted job 77"]
    assert len(second.submitted) == 1, "another user's mark is no sign"


class Forgetful:
    """A record in which no act is found again."""

    def __init__(self, store):
        self.store = store
        self.audit = ForgetfulAudit(store.audit)

    def __getattr__(self, name):
        return getattr(self.store, name)


class ForgetfulAudit:
    def __init__(self, audit):
        self.audit = audit

    def find_recorded(self, cluster, names):
        return frozenset()

    def record(self, entry):
        return self.audit.record(replace(entry, once_key=None))

    def __getattr__(self, name):
        return getattr(self.audit, name)


def marks_of(submitted):
    comments = [word for item in submitted for word in item["argv"] if word.startswith("--comment=")]
    return {(1000, sbatch_command.mark_of(comment.removeprefix("--comment=")).end): 77 for comment in comments}


class Killed(Ended):
    """The daemon dies while Slurm takes the job."""

    def answer(self, item):
        if item["argv"][0] == "sbatch":
            super().answer(item)
            raise KeyboardInterrupt
        return super().answer(item)


def test_an_act_that_was_cut_off_is_told_by_the_jobs_mark_and_not_done_again(resubmitting):
    slurm = Killed()
    parts = resubmitting(slurm)
    with pytest.raises(KeyboardInterrupt):
        resubmit(parts)
    assert [entry.outcome for entry in parts.store.audit.list_newest("c1")] == [None]
    assert resubmit(parts, marks_of(slurm.submitted), now=62) == []
    assert [entry.outcome for entry in parts.store.audit.list_newest("c1")] == ["submitted job 77"]


def interrupt(parts):
    """Let the daemon die while it resubmits, and return what its successor does from then on."""
    with pytest.raises(KeyboardInterrupt):
        resubmit(parts)  # at minute 61
    seen_at = {}

    def act_later(minute, marked=None, *, slurm, kept_for=timedelta(minutes=5)):
        proof = AbsenceProof(polled_at=at(minute), kept_for=kept_for, seen_at=seen_at)
        later = replace(parts, agent=slurm)
        acted = act.act(later, {RUN: WISHING}, {RUN: FINISHED}, marked or {}, at(minute), proof)
        return [outcome for _, outcome in acted.done]

    return act_later


def outcomes(parts):
    return sorted(str(entry.outcome) for entry in parts.store.audit.list_newest("c1"))


def test_an_interrupted_submission_is_made_up_for_once_the_queue_proves_that_slurm_never_got_it(resubmitting):
    slurm, parts = Ended(), resubmitting(Killed())
    act_later = interrupt(parts)
    assert act_later(61.4, slurm=slurm) == []
    assert act_later(63.3, slurm=slurm) == [], "what was under way may still arrive"
    assert outcomes(parts) == ["None"]
    assert act_later(63.5, slurm=slurm) == ["submitted job 77"]
    assert outcomes(parts) == ["interrupted before it was submitted: no job carries its mark", "submitted job 77"]
    assert act_later(64, slurm=slurm) == []
    assert len(slurm.submitted) == 1


@pytest.mark.parametrize(
    ("minutes", "kept_for"),
    [((65, 65.6, 67.1), 5), ((61.4, 65.6), 5), ((61.4, 63.5), 2)],
    ids=["seen late", "polled late", "Slurm forgets early"],
)
def test_an_interrupted_submission_that_slurm_may_have_forgotten_is_not_made_up_for(resubmitting, minutes, kept_for):
    slurm, parts = Ended(), resubmitting(Killed())
    act_later = interrupt(parts)
    for minute in (*minutes, 70):
        assert act_later(minute, slurm=slurm, kept_for=timedelta(minutes=kept_for)) == []
    assert outcomes(parts) == ["cut off: it is not known to have been done"]
    assert slurm.submitted == []


def test_an_interrupted_submission_that_slurm_got_is_not_made_up_for(resubmitting):
    slurm, killed = Ended(), Killed()
    parts = resubmitting(killed)
    act_later = interrupt(parts)
    assert act_later(61.4, slurm=slurm) == []
    assert act_later(63.5, marks_of(killed.submitted), slurm=slurm) == []
    assert outcomes(parts) == ["submitted job 77"]
    assert slurm.submitted == []


def test_an_interrupted_submission_to_a_federation_is_not_made_up_for():
    entry = AuditEntry(
        cluster="c1", actor="policy", action="resubmit-job", target=f"job {2**26 + 7}", begun_at=at(61), audit_id=1
    )
    proof = AbsenceProof(polled_at=at(64), kept_for=timedelta(minutes=5), seen_at={1: at(61.4)})
    assert not proof.is_unsubmitted(entry, at(64))
    assert proof.is_unsubmitted(replace(entry, target="job 7_3"), at(64))
    assert not proof.is_unsubmitted(replace(entry, target="job 7", action="signal-job"), at(64))


def test_an_act_that_was_cut_off_before_it_was_done_is_given_up_and_not_tried_again(resubmitting):
    parts = resubmitting(Killed())
    with pytest.raises(KeyboardInterrupt):
        resubmit(parts)
    assert resubmit(parts, now=64) == []
    assert [entry.outcome for entry in parts.store.audit.list_newest("c1")] == [None]
    assert resubmit(parts, now=67) == []
    assert "not known to have been done" in parts.store.audit.list_newest("c1")[0].outcome
