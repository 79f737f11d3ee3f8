"""Acts are on record before they are done, and what is on record is not done again."""

from dataclasses import replace

import pytest

from ckptd import acting
from ckptd.checkpoints.commands import CommandError, run_commands
from ckptd.core import tracking
from ckptd.core.actions import ActKind, Permits
from ckptd.core.model import Unknown
from ckptd.slurm import actions
from ckptd.slurm.programs import Programs
from ckptd.store.store import Store
from core.histories import RUN, at, attempt, history, job
from queue_facts import look, make_job

LOOPING = history(
    jobs=[job(partition="gpu1", array_job_id=1, array_task_id=7)],
    attempts=[attempt(0, 1)],
    flagged=frozenset({("restart-loop", 1)}),
)


class Recorder:
    """An agent that notes what is on record when it is asked."""

    def __init__(self, store, answer):
        self.store, self.answer, self.asked = store, answer, []

    def run(self, batches):
        (batch,) = batches
        self.asked.append((batch.uid, batch.items[0]["argv"], self.store.read_audit("c1", unfinished_only=True)))
        return [[self.answer]]


@pytest.fixture
def parts(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/record.db", upgrade=True)
    store.record_poll("c1", at(0))
    permits = Permits(partitions={ActKind.HOLD: ("*",)}, max_per_hour=2)
    yield acting.ActingParts(
        cluster="c1", store=store, agent=Recorder(store, {"output": ""}), programs=Programs(), permits=permits
    )
    store.close()


@pytest.fixture
def run_on_record(parts):

    changes = tracking.compare({}, look(0, replace(make_job(1), cluster="c1")))
    changes = replace(changes, cluster="c1", new=tuple(rename(known) for known in changes.new), begun=(), ended=())
    parts.store.record_jobs(changes)
    parts.store.assign_run([changes.new[0].key], RUN, "alice", "comment", at(0))


def rename(known):
    key = known.key._replace(cluster="c1")
    return replace(known, key=key, attempt=None, run=known.run._replace(cluster="c1"))


def test_an_act_is_on_record_before_it_is_done_as_the_user_and_never_done_again(parts, run_on_record):
    ((act, outcome),) = acting.act(parts, {RUN: LOOPING}, {}, at(5))
    assert (act.kind, outcome) == (ActKind.HOLD, "done")
    ((uid, argv, before),) = parts.agent.asked
    assert (uid, argv) == (1000, ["scontrol", "requeuehold", "1_7"])
    assert [(entry.action, entry.target, entry.plan_id) for entry in before] == [("hold-job", "job 1_7", act.name)]
    assert acting.act(parts, {RUN: LOOPING}, {}, at(6)) == ()
    (entry,) = parts.store.read_audit("c1")
    assert (entry.outcome, entry.run, entry.actor) == ("done", RUN, "actions")


def test_an_act_that_failed_or_was_cut_off_is_not_tried_again(parts, run_on_record):
    parts.agent.answer = Unknown(what="command", reason="scontrol ended with 1: Access denied")
    ((_, outcome),) = acting.act(parts, {RUN: LOOPING}, {}, at(5))
    assert outcome == "failed: scontrol ended with 1: Access denied"
    assert acting.act(parts, {RUN: LOOPING}, {}, at(6)) == ()


def test_no_more_acts_an_hour_than_the_site_allows(parts, run_on_record):
    for number in range(5):
        again = replace(LOOPING, attempts=(attempt(0, 1, restart_count=number),))
        acting.act(parts, {RUN: again}, {}, at(5 + number))
    assert len(parts.agent.asked) == 2
    acting.act(parts, {RUN: replace(LOOPING, attempts=(attempt(0, 1, restart_count=9),))}, {}, at(70))
    assert len(parts.agent.asked) == 3
    assert parts.store.count_audited("c1", "actions", at(0), action="hold-job", run=RUN) == 3
    assert parts.store.count_audited("c1", "actions", at(0), action="signal-job") == 0


def test_a_command_names_one_task_and_never_its_whole_array():
    task = job(job_id=10, array_job_id=10, array_task_id=3)
    assert actions.format_signal(task, "B:USR1") == ["scancel", "--signal=USR1", "--state=RUNNING", "--batch", "10_3"]
    assert actions.format_signal(job(job_id=4), "TERM") == ["scancel", "--signal=TERM", "--state=RUNNING", "4"]


def test_text_of_users_stays_inside_its_option():
    wild = replace(job(), name="--uid=0", comment="a b;--exclusive\n#SBATCH -p x", partition="gpu1")
    argv = actions.format_submit(wild)
    assert "--job-name=--uid=0" in argv
    assert f"--comment={wild.comment}" in argv
    assert "--uid=0" not in argv


@pytest.mark.parametrize("argv", [["sh", "-c", "true"], ["/bin/scancel"], ["sbatch-x"]])
def test_only_slurms_own_commands_are_run(argv):
    with pytest.raises(CommandError, match="no command that is run for a job"):
        run_commands({"argv": argv})


def test_a_command_that_fails_says_why(tmp_path, monkeypatch):
    program = tmp_path / "scancel"
    program.write_text("#!/bin/sh\necho no such job >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(CommandError, match="scancel ended with 3: no such job"):
        run_commands({"argv": ["scancel", "1"]})


def test_nothing_is_submitted_where_slurm_gives_no_script(tmp_path, monkeypatch):
    for name, text in (("scontrol", "echo refused >&2"), ("sbatch", f"touch {tmp_path}/submitted")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(CommandError, match="printed no batch script"):
        run_commands({"script_argv": ["scontrol", "write", "batch_script", "1", "-"], "argv": ["sbatch"]})
    assert not (tmp_path / "submitted").exists()
