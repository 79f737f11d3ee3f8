"""Acts are on record before they are done, and what is on record is not done again."""

import itertools
import json
import os
import pwd
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd import acting
from ckptd.checkpoints.agent_client import SILENCE
from ckptd.checkpoints.commands import CommandError, run_command
from ckptd.core import resubmission, tracking
from ckptd.core.actions import ActKind, Permits, PutOff
from ckptd.core.going_on import Finished
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.model import EndCause, JobState, Unknown, Wishes
from ckptd.slurm import actions
from ckptd.slurm.programs import Programs
from ckptd.store.store import Store
from core.histories import RUN, at, attempt, history, job, saved
from support.queue_facts import look, make_job
from support.recorded import note_run

WISHES = Wishes(is_resubmitted=True, max_resubmits=3)
REQUEUED = [attempt(number, number + 0.9, restart_count=number) for number in range(3)]
LOOPING = history(
    now=5,
    jobs=[job(partition="gpu1", array_job_id=1, array_task_id=7)],
    attempts=REQUEUED,
    flagged=frozenset({("restart-loop", 1)}),
)


class Recorder:
    """An agent that notes what is on record when it is asked."""

    def __init__(self, store, answer):
        self.store, self.answer, self.asked = store, answer, []
        self.now = ("RUNNING", 0)

    def run(self, batches):
        (batch,) = batches
        argv = batch.items[0]["argv"]
        if argv[0] == "squeue":
            return [[{"output": say_now(argv, *self.now)}]]
        self.asked.append((batch.uid, argv, self.store.read_audit("c1", unfinished_only=True)))
        return [[self.answer]]


def say_now(argv, state, restart_count):
    """What squeue says when it is asked once more, right before an act."""
    values = {"State": state, "RestartCnt": str(restart_count)}
    fields = [each.partition(":") for each in argv[-1].split(",")]
    return "".join(f"{values[name]}{end}" for name, _, end in fields) + "\n"


@pytest.fixture
def parts(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/record.db", upgrade=True)
    store.record_poll("c1", at(0))
    permits = Permits(partitions={ActKind.HOLD: ("*",)}, max_per_hour=4)  # of which one user gets half
    yield acting.ActingParts(
        cluster="c1",
        store=store,
        agent=Recorder(store, {"output": ""}),
        programs=Programs(),
        permits=permits,
        loop_rule=lambda _: RestartLoop(),
    )
    store.close()


@pytest.fixture
def run_on_record(parts):

    changes = tracking.compare({}, look(0, replace(make_job(1), cluster="c1")))
    changes = replace(changes, cluster="c1", new=tuple(rename(known) for known in changes.new), begun=(), ended=())
    parts.store.record_jobs(changes)
    note_run(parts.store, RUN, at(0), jobs=[changes.new[0].key])


def rename(known):
    key = known.key._replace(cluster="c1")
    return replace(known, key=key, attempt=None, run=known.run._replace(cluster="c1"))


def test_an_act_is_on_record_before_it_is_done_as_the_user_and_never_done_again(parts, run_on_record):
    ((act, outcome),) = acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done
    assert (act.kind, outcome) == (ActKind.HOLD, "done")
    ((uid, argv, before),) = parts.agent.asked
    assert (uid, argv) == (1000, ["scontrol", "requeuehold", "1_7"])
    assert [(entry.action, entry.target, entry.plan_id) for entry in before] == [("hold-job", "job 1_7", act.name)]
    assert acting.act(parts, {RUN: LOOPING}, {}, {}, at(6)).done == ()
    (entry,) = parts.store.read_audit("c1")
    assert (entry.outcome, entry.run, entry.actor) == ("done", RUN, "actions")


def test_an_act_that_failed_or_was_cut_off_is_not_tried_again(parts, run_on_record):
    parts.agent.answer = Unknown(what="command", reason="scontrol ended with 1: Access denied")
    ((_, outcome),) = acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done
    assert outcome == "failed: scontrol ended with 1: Access denied"
    assert acting.act(parts, {RUN: LOOPING}, {}, {}, at(6)).done == ()


@pytest.mark.parametrize(
    ("state", "restart_count", "outcome", "command"),
    [
        ("COMPLETED", 0, "not needed: the job has ended", None),
        ("CANCELLED", 0, "not needed: the job has ended", None),
        ("RUNNING", 1, "not needed: another attempt of it runs", None),
        ("PENDING", 1, "done", "hold"),
        ("RUNNING", 0, "done", "requeuehold"),
        ("garbled", "x", "failed: a restart count of 'x'", None),
    ],
)
def test_a_job_is_held_as_it_is_now_and_one_that_has_ended_is_not_brought_back(
    parts, run_on_record, state, restart_count, outcome, command
):
    parts.agent.now = (state, restart_count)
    assert [told for _, told in acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done] == [outcome]
    assert [argv[1] for _, argv, _ in parts.agent.asked] == ([command] if command else [])


def looping_since(restart_count):
    """The same loop, later: acts are named by attempts."""
    later = tuple(replace(each, restart_count=each.restart_count + restart_count) for each in LOOPING.attempts)
    return replace(LOOPING, attempts=later)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("failed: scontrol: error: no", "failed: scontrol: error: no"),
        ("scontrol ended with 1: no", "failed: scontrol ended with 1: no"),
        ("failed: Job/step already completing or completed for job 1", "not needed: the job has ended"),
        ("failed: Invalid job id specified", "not needed: the job has ended"),
    ],
)
def test_what_slurm_refused_is_told_once_and_a_job_that_has_ended_is_no_failure(parts, run_on_record, reason, outcome):
    parts.agent.answer = Unknown(what="command", reason=reason)
    assert [told for _, told in acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done] == [outcome]


def test_no_more_acts_an_hour_than_the_site_allows(parts, run_on_record):
    for number in range(5):
        again = looping_since(number)
        acted = acting.act(parts, {RUN: again}, {}, {}, at(5 + number))
    assert len(parts.agent.asked) == 2
    assert [act.kind for act in acted.put_off] == [ActKind.HOLD]
    acting.act(parts, {RUN: looping_since(9)}, {}, {}, at(70))
    assert len(parts.agent.asked) == 3
    assert parts.store.count_audited_by_owner("c1", "actions", at(0)) == {("hold-job", 1000): 3}


def test_while_slurm_is_silent_nothing_is_done_and_what_is_due_waits(parts, run_on_record):
    for minute in (5, 6):
        acted = acting.wait_for_slurm(parts, {RUN: LOOPING}, {}, at(minute))
        assert ([act.kind for act in acted.put_off], acted.waits_for) == ([ActKind.HOLD], PutOff.SLURM)
    assert (parts.agent.asked, parts.store.read_audit("c1")) == ([], ())
    acting.act(parts, {RUN: LOOPING}, {}, {}, at(7))
    assert acting.wait_for_slurm(parts, {RUN: LOOPING}, {}, at(8)).put_off == ()


def test_a_command_names_one_task_and_never_its_whole_array():
    task = job(job_id=10, array_job_id=10, array_task_id=3)
    assert actions.format_signal(task, "B:USR1") == ["scancel", "--signal=USR1", "--state=RUNNING", "--batch", "10_3"]
    assert actions.format_signal(job(job_id=4), "TERM") == ["scancel", "--signal=TERM", "--state=RUNNING", "4"]


def test_a_federated_jobs_state_is_not_asked_for_where_it_was_submitted():
    """There it is revoked, and scancel would send nothing with status 0."""
    assert actions.format_signal(job(job_id=67108866), "TERM") == ["scancel", "--signal=TERM", "67108866"]


@pytest.mark.parametrize("argv", [["sh", "-c", "true"], ["/bin/scancel"], ["sbatch-x"]])
def test_only_slurms_own_commands_are_run(argv):
    with pytest.raises(CommandError, match="no command that is run for a job"):
        run_command({"argv": argv})


@pytest.mark.parametrize(
    ("complaint", "status"),
    [("no such job", 3), ("scontrol: error: no", 0), ("job script retrieval failed: Unable to contact it", 0)],
)
def test_a_command_that_fails_says_why(tmp_path, monkeypatch, complaint, status):
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\necho {complaint} >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(CommandError, match=f"scontrol ended with {status}: {complaint}"):
        run_command({"argv": ["scontrol", "1"]})


def test_a_command_has_the_environment_of_its_user_and_none_of_the_daemons(tmp_path, monkeypatch):
    program = tmp_path / "sbatch"
    program.write_text("#!/usr/bin/env -S python3 -IS\nimport json, os\nprint(json.dumps(dict(os.environ)))\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("CKPTD_STORE__URL", "CREDENTIALS_DIRECTORY", "SLURM_JWT", "SBATCH_ACCOUNT", "NOTIFY_SOCKET"):
        monkeypatch.setenv(name, "secret")
    told = json.loads(run_command({"argv": ["sbatch"]})["output"])
    assert set(told) <= {"PATH", "LANG", "LC_CTYPE", "SLURM_CONF", "HOME", "USER", "LOGNAME", "SHELL"}
    assert told["HOME"] == pwd.getpwuid(os.geteuid()).pw_dir


def test_whoever_keeps_one_act_waiting_has_the_others_wait_for_the_next_time(parts, run_on_record, monkeypatch):
    def looping(run, restart_count):
        note_run(parts.store, run, at(0))
        return replace(looping_since(restart_count), key=run, jobs=(replace(LOOPING.jobs[0], uid=run.uid),))

    parts = replace(parts, permits=replace(parts.permits, max_per_hour=100))
    runs = [RUN, RUN._replace(directory="/scratch/alice/more"), RUN._replace(uid=1001)]
    loops = {run: looping(run, number) for number, run in enumerate(runs)}
    clock = itertools.count(0, 11)
    monkeypatch.setattr(acting.time, "monotonic", lambda: next(clock))
    acting.act(parts, loops, {}, {}, at(5))
    assert [uid for uid, _, _ in parts.agent.asked] == [1000, 1001]
    acting.act(parts, loops, {}, {}, at(6))
    assert [uid for uid, _, _ in parts.agent.asked] == [1000, 1001, 1000]


def test_a_command_gets_its_input_and_its_directory_and_other_bytes_stay_what_they_are(tmp_path, monkeypatch):
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\npwd\ncat\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    answer = run_command({"argv": ["sbatch"], "input": "caf\udce9\n", "directory": str(tmp_path)})
    assert answer == {"output": f"{tmp_path}\ncaf\udce9\n"}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o027, 0o002, 0o000, 0o007, 0o026])
def test_a_command_makes_its_files_for_those_who_may_read_what_the_job_has_made(tmp_path, monkeypatch, umask):
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\numask\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    output = tmp_path / "out"
    output.touch()
    output.chmod(0o666 & ~umask)
    told = run_command({"argv": ["sbatch"], "like": str(output)})["output"]
    assert int(told, 8) == {0o026: 0o027}.get(umask, umask)


@pytest.mark.parametrize("like", ["", "/dev/null", "/gone/out", "a\0b"])
def test_a_command_makes_its_files_for_nobody_else_where_no_file_tells_for_whom(tmp_path, monkeypatch, like):
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\numask\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert run_command({"argv": ["sbatch"], "like": like}) == {"output": "0077\n"}


SHOWN = "JobId=1 JobName=x\n   ReqNodeList=(null) ExcNodeList=n7\n   StdOut=/home/alice/my out\n"
SHOWN += "   MailUser=alice MailType=END\n"
SHOWN_VALUES = {"ExcNodeList": "n7", "MailUser": "alice", "MailType": "END", "StdOut": "/home/alice/my out"}
SCRIPT = "#!/bin/sh\nsleep 1\n"
TIMED_OUT = replace(attempt(0, 60, cause=EndCause.TIME_LIMIT), state=JobState.TIMEOUT, partition="gpu1")
WISHING = history(jobs=(), attempts=[TIMED_OUT], checkpoints=[saved(50, step=5)], wishes=WISHES)
FINISHED = Finished(
    job=job(partition="gpu1", work_dir=PurePosixPath("/home/alice"), state=JobState.TIMEOUT),
    attempt=TIMED_OUT,
    is_settled=True,
    has_successor=False,
    resubmit_count=1,
)


class Slurm:
    """An agent whose commands answer as Slurm's would; `refused` programs fail."""

    def __init__(self, line="sbatch -c3", *, script=SCRIPT, command="(null)", refused=()):
        self.line, self.script, self.command, self.refused = line, script, command, refused
        self.submitted, self.signalled = [], 0

    def run(self, batches):
        return [[self.answer(item) for item in batch.items] for batch in batches]

    def answer(self, item):
        program, *words = item["argv"]
        if program in self.refused:
            return Unknown(what="command", reason=f"{program} ended with 1")
        if program == "scontrol":
            return {"output": SHOWN if "show" in words else self.script}
        if program == "sacct":
            (end,) = (word.removeprefix("--delimiter=") for word in words if word.startswith("--delimiter="))
            return {"output": f"{self.line}{end}\n"}
        if program == "squeue" and words[-1].startswith("State:"):
            return {"output": say_now(words, "RUNNING", 0)}
        if program == "squeue":
            fields = [each.partition(":") for each in words[-1].split(",")]
            return {
                "output": "".join((self.command if f == "Command" else "(null)") + end for f, _, end in fields) + "\n"
            }
        if program == "sbatch":
            self.submitted.append(item)
        self.signalled += program == "scancel"
        return {"output": "77;c1\n"}


@pytest.fixture
def resubmitting(parts, run_on_record):
    permits = Permits(partitions={ActKind.RESUBMIT: ("*",), ActKind.SIGNAL: ("*",)})

    def using(agent):
        return replace(parts, agent=agent, permits=permits)

    return using


def resubmit(parts, marked=None, now=61):
    return [outcome for _, outcome in acting.act(parts, {RUN: WISHING}, {RUN: FINISHED}, marked or {}, at(now)).done]


def test_a_job_is_submitted_again_with_its_script_in_its_directory_and_the_command_is_on_record(resubmitting):
    slurm = Slurm()
    parts = resubmitting(slurm)
    assert resubmit(parts) == ["submitted job 77"]
    (item,) = slurm.submitted
    assert (item["input"], item["directory"], item["argv"][-1]) == (SCRIPT, "/home/alice", "--cpus-per-task=3")
    assert item["like"] == "/home/alice/my out"
    (entry,) = parts.store.read_audit("c1")
    assert (entry.outcome, entry.details["command"]) == ("submitted job 77", item["argv"])
    assert resubmit(parts) == []


@pytest.mark.parametrize(
    ("slurm", "reason"),
    [
        (Slurm(script=""), "failed: Slurm printed no batch script"),
        (Slurm(refused=("scontrol",)), "failed: scontrol ended with 1"),
        (Slurm(refused=("squeue",)), "failed: squeue ended with 1"),
        (Slurm("sbatch x a  b", command="/x a  b"), "failed: the arguments of its script cannot be told apart"),
    ],
)
def test_nothing_is_submitted_where_slurm_does_not_tell_what(resubmitting, slurm, reason):
    parts = resubmitting(slurm)
    assert resubmit(parts) == [reason]
    assert slurm.submitted == []
    assert resubmit(parts) == []


AWAY = "scontrol ended with 1: Unable to contact slurm controller (connect failure)"
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
    class Away(Slurm):
        def answer(self, item):
            if item["argv"][0] == program:
                return Unknown(what="command", reason=reason)
            return super().answer(item)

    parts, back = resubmitting(Away()), Slurm()
    assert resubmit(parts) == [f"failed: {reason}"]
    assert resubmit(replace(parts, agent=back)) == (["submitted job 77"] if is_tried_again else [])
    outcomes = parts.store.read_outcomes("c1", "resubmit-job", [RUN])[RUN]
    assert len(outcomes) == 1, "what was not done counts for nothing"
    assert len(parts.store.read_audit("c1")) == (2 if is_tried_again else 1)


def test_a_hold_that_slurm_was_not_there_for_is_tried_again(parts, run_on_record):
    parts.agent.answer = Unknown(what="command", reason=AWAY)
    assert [outcome for _, outcome in acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done] == [f"failed: {AWAY}"]
    parts.agent.answer = {"output": ""}
    assert [outcome for _, outcome in acting.act(parts, {RUN: LOOPING}, {}, {}, at(6)).done] == ["done"]


def test_that_slurm_does_not_know_the_job_any_more_is_a_failure_where_it_is_to_go_on(resubmitting):
    class Forgot(Slurm):
        def answer(self, item):
            return Unknown(what="command", reason="failed: Invalid job id specified")

    assert resubmit(resubmitting(Forgot())) == ["failed: Invalid job id specified"]


def test_without_accounting_the_attributes_are_enough(resubmitting):
    slurm = Slurm(refused=("sacct",))
    (outcome,) = resubmit(resubmitting(slurm))
    (item,) = slurm.submitted
    assert {"--exclude=n7", "--mail-user=alice", "--mail-type=END"} <= set(item["argv"])
    assert outcome == "submitted job 77; accounting has no command line of it: what only that told is lost, as --signal"


@pytest.mark.parametrize(
    "forged",
    [
        "JobName=x\n   ReqNodeList=n1 ExcNodeList=n2\n",
        "Comment=x\n   MailUser=eve MailType=ALL\n",
    ],
)
def test_what_scontrol_shows_is_not_believed_where_text_of_the_user_pretends_to_be_it(forged):
    assert actions.parse_shown(SHOWN) == SHOWN_VALUES
    assert isinstance(actions.parse_shown(f"JobId=1 {forged}{SHOWN}"), Unknown)


def test_a_directory_that_hangs_keeps_nobody_waiting_and_the_job_goes_on_once_it_answers(resubmitting):
    class Hanging(Slurm):
        def answer(self, item):
            return SILENCE if "directory" in item else super().answer(item)

    hanging, slurm = Hanging(), Slurm()
    parts = resubmitting(hanging)
    assert (resubmit(parts), hanging.submitted, parts.store.read_audit("c1")) == ([], [], ())
    assert resubmit(resubmitting(slurm)) == ["submitted job 77"]


def test_a_job_with_the_mark_of_an_act_is_not_submitted_a_second_time_though_the_record_was_lost(resubmitting):
    first, second = Slurm(), Slurm()
    resubmit(resubmitting(first))
    marked = marks_of(first.submitted)
    parts = resubmitting(second)
    assert marked == {(1000, resubmission.name_end(TIMED_OUT)): 77}
    lost = replace(parts, store=Forgetful(parts.store))
    assert resubmit(lost, marked) == ["submitted job 77"]
    assert second.submitted == []
    assert resubmit(lost, {(1001, mark): job_id for (_, mark), job_id in marked.items()}) == ["submitted job 77"]
    assert len(second.submitted) == 1, "another user's mark is no sign"


class Forgetful:
    """A record in which no act is found again."""

    def __init__(self, store):
        self.store = store

    def find_audited(self, cluster, names):
        return frozenset()

    def __getattr__(self, name):
        return getattr(self.store, name)


def marks_of(submitted):
    comments = [word for item in submitted for word in item["argv"] if word.startswith("--comment=")]
    return {(1000, resubmission.mark_of(comment.removeprefix("--comment=")).end): 77 for comment in comments}


class Killed(Slurm):
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
    assert [entry.outcome for entry in parts.store.read_audit("c1")] == [None]
    assert resubmit(parts, marks_of(slurm.submitted), now=62) == []
    assert [entry.outcome for entry in parts.store.read_audit("c1")] == ["submitted job 77"]


def test_an_act_that_was_cut_off_before_it_was_done_is_given_up_and_not_tried_again(resubmitting):
    parts = resubmitting(Killed())
    with pytest.raises(KeyboardInterrupt):
        resubmit(parts)
    assert resubmit(parts, now=64) == []
    assert [entry.outcome for entry in parts.store.read_audit("c1")] == [None]
    assert resubmit(parts, now=67) == []
    assert "not known to have been done" in parts.store.read_audit("c1")[0].outcome


NEAR = history(
    now=59.5,
    jobs=[job(comment="ckpt-signal=B:USR1", partition="gpu1", time_limit=timedelta(minutes=60), ends_at=at(60))],
    checkpoints=[saved(minute, step=minute, took=0.1) for minute in (10, 20, 30, 40)],
)


@pytest.mark.parametrize(
    ("slurm", "is_sent"),
    [
        pytest.param(Slurm(), True, id="none of its own"),
        pytest.param(Slurm("sbatch --signal=B:USR1@120"), False, id="the same in time"),
        pytest.param(Slurm(script="#!/bin/sh\n#SBATCH --signal=B:USR1\n"), False, id="the script's, in time"),
        pytest.param(Slurm("sbatch --signal=B:USR1@5"), True, id="too late for a save"),
        pytest.param(Slurm("sbatch --signal=USR1@120"), True, id="for the steps, not the shell"),
        pytest.param(Slurm("sbatch --signal=B:TERM@120"), True, id="another"),
        pytest.param(
            Slurm("sbatch --signal=B:TERM@9", script="#!/bin/sh\n#SBATCH --signal=B:USR1\n"), True, id="overridden"
        ),
        pytest.param(Slurm(refused=("scontrol", "sacct")), True, id="nobody can tell"),
    ],
)
def test_a_signal_that_slurm_sends_in_time_by_itself_is_not_sent_a_second_time(resubmitting, slurm, is_sent):
    slurm.signalled = 0
    ((_, outcome),) = acting.act(resubmitting(slurm), {RUN: NEAR}, {}, {}, at(59.5)).done
    assert (slurm.signalled, outcome == "done") == (int(is_sent), is_sent)
    assert is_sent or outcome.startswith("not needed: its own --signal=B:USR1@")


@pytest.mark.parametrize("now", [("RUNNING", 1), ("PENDING", 1), ("COMPLETED", 0), ("COMPLETING", 0)])
def test_no_signal_goes_to_an_attempt_that_began_after_it_was_decided_on(resubmitting, now):
    class Moved(Slurm):
        def answer(self, item):
            is_look = item["argv"][-1].startswith("State:")
            return {"output": say_now(item["argv"], *now)} if is_look else super().answer(item)

    slurm = Moved()
    ((_, outcome),) = acting.act(resubmitting(slurm), {RUN: NEAR}, {}, {}, at(59.5)).done
    assert slurm.signalled == 0
    assert outcome.startswith("not needed: ")
