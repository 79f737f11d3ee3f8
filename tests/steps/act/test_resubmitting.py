"""A run goes on with its own script, once for each end, whatever comes between."""

from dataclasses import replace

import pytest

from ckptd.checkpoints.agent.client import SILENCE
from ckptd.core.job_actions import sbatch_command
from ckptd.core.model import Unknown
from ckptd.slurm import commands
from core.histories import RUN
from support.job_action_facts import AWAY, SCRIPT, SHOWN, TIMED_OUT, Ended, resubmit

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
    assert outcome == (
        "submitted job 77; accounting has no submit line of the job: "
        "options given only there are lost, such as --signal"
    )


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


def test_an_act_that_was_cut_off_before_it_was_done_is_given_up_and_not_tried_again(resubmitting):
    parts = resubmitting(Killed())
    with pytest.raises(KeyboardInterrupt):
        resubmit(parts)
    assert resubmit(parts, now=64) == []
    assert [entry.outcome for entry in parts.store.audit.list_newest("c1")] == [None]
    assert resubmit(parts, now=67) == []
    assert "not known to have been done" in parts.store.audit.list_newest("c1")[0].outcome
