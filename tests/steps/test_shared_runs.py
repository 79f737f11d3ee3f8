"""Two daemons, one for each cluster, and a run that continues on the other cluster with the same files."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.core.model import JobState, QueueSnapshot, Unknown
from ckptd.core.notices import NoticeMode, NoticePolicy
from ckptd.core.runs.shared_files import declare
from ckptd.service.step_table import run_once
from ckptd.steps import share
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.snapshots import RunHistories, SharedRuns
from ckptd.steps.state import begin
from steps.daemon_lives import Cluster, Disk
from support.migrated import open_record
from support.parts import make_parts, make_rules
from support.queue_facts import RUN, at, make_checkpoint, make_job

ALPHA, BETA = RUN, RUN._replace(cluster="beta")
POLICY = NoticePolicy(mode=NoticeMode.ON, user_rule="{user}@example.org")
GROUPS = [(("alpha", "beta"), ("/data",))]


class Queue(Cluster):
    """The queue of a cluster, with another user's job that always runs."""

    def __init__(self, name):
        super().__init__()
        self.cluster = name

    def read_mail_user(self, job):
        return None

    def read_queue(self, now):
        jobs = (*self.jobs, make_job(91, uid=2000, user="bob", comment="ckpt=saves"))
        return QueueSnapshot(
            cluster=self.cluster, polled_at=now, jobs=tuple(replace(job, cluster=self.cluster) for job in jobs)
        )


class CountingDisk(Disk):
    """The files that both clusters share, and how often each asks for them."""

    def __init__(self, files):
        super().__init__()
        self.files = files
        self.scan_count = 0

    def run(self, batches):
        self.checkpoints = tuple(self.files)
        self.scan_count += sum(len(each.items) for each in batches if each.operation == "scan" and each.uid == RUN.uid)
        return super().run(batches)


class Daemon:
    """The daemon of one cluster."""

    def __init__(self, name, url, files, minutes=0, *, groups=GROUPS):
        self.disk = CountingDisk(files)
        self.parts = replace(
            make_parts(name, Queue(name), open_record(url), self.disk, rules=make_rules(), notice_policy=POLICY),
            shared=declare(name, groups),
        )
        self.state = begin(self.parts, at(minutes))
        share.begin(self.parts, self.state, at(minutes))

    def run(self, minutes, *jobs):
        """Run every step once; return how often the run's directory was scanned."""
        before = self.disk.scan_count
        self.parts.source.jobs = jobs
        run_once(self.parts, self.state, at(minutes))
        return self.disk.scan_count - before

    @property
    def history(self):
        return self.state.latest(RunHistories).by_run.get(RUN._replace(cluster=self.parts.cluster))

    def notices(self, rule=""):
        """Return the notices of this cluster about the run, or about one of its rules, as they are on record."""
        values = {"cluster": self.parts.cluster, "directory": RUN.directory}
        with self.parts.store.database.selecting() as select:
            rows = select(
                "SELECT n.payload FROM notices n JOIN runs r ON r.id = n.run_id"
                " WHERE n.cluster = :cluster AND r.directory = :directory ORDER BY n.id",
                values,
            )
            return [payload for (payload,) in rows if rule in payload]

    def flags(self):
        return {
            flag.finding.rule
            for flag in self.parts.store.flags.list_open(self.parts.cluster)
            if flag.finding.run.directory == RUN.directory
        }


@pytest.fixture
def files():
    return []


@pytest.fixture
def daemons(url, files):
    made = [Daemon("alpha", url, files), Daemon("beta", url, files)]
    yield made
    for each in made:
        each.parts.store.close()


def make(job_id, started, **changes):
    started_at = at(started)
    times = {"submitted_at": started_at, "started_at": started_at, "ends_at": started_at + timedelta(hours=1)}
    return make_job(job_id, **{**times, "comment": "ckpt=run", "name": "train", **changes})


def run_on_alpha(daemons):
    """Run a job on alpha for an hour that saves nothing; it ends by its time limit."""
    first, second = daemons
    job = make(1, 0)
    for minutes in (0, 1, 30, 59):
        first.run(minutes, job)
        second.run(minutes)
    for minutes in (61, 62, 63):
        first.run(minutes, replace(job, state=JobState.TIMEOUT, ends_at=at(60)))
        second.run(minutes)
    return job


def test_a_job_that_starts_over_on_another_cluster_restarted_without_a_checkpoint(daemons):
    first, second = daemons
    run_on_alpha(daemons)
    job = make(1, 70)
    for minutes in (70, 71, 76):
        second.run(minutes, job)
        first.run(minutes)
    assert [each.job.cluster for each in second.history.attempts] == ["alpha", "beta"]
    assert "restarted-without-checkpoint" in second.flags()
    (flag,) = [
        each
        for each in second.parts.store.flags.list_open("beta")
        if each.finding.rule == "restarted-without-checkpoint"
    ]
    assert (flag.finding.run, flag.finding.evidence["attempts"]) == (BETA, 2)
    assert flag.finding.evidence["earlier_run_time_seconds"] == 3600
    assert first.history is None
    assert first.flags() == set()
    assert len(second.notices("restarted-without-checkpoint")) == 1
    assert first.notices("restarted-without-checkpoint") == []


def test_without_a_declaration_the_second_cluster_sees_the_first_attempt_of_a_run(url, files):
    made = [Daemon("alpha", url, files), Daemon("beta", url, files, groups=())]
    run_on_alpha(made)
    for minutes in (70, 71, 76):
        made[1].run(minutes, make(1, 70))
        made[0].run(minutes)
    assert "restarted-without-checkpoint" not in made[1].flags()
    assert [each.job.cluster for each in made[1].history.attempts] == ["beta"]
    for each in made:
        each.parts.store.close()


def test_only_the_daemon_of_the_latest_attempt_scans_and_judges_the_run(daemons):
    first, second = daemons
    still = make(1, 0, ends_at=at(600))
    for minutes in (0, 1):
        first.run(minutes, still)
        second.run(minutes)
    job = make(5, 10)
    second.run(10, job)
    first.run(10, still)
    assert first.state.latest(SharedRuns).elsewhere == {ALPHA}
    assert [first.run(minutes, still) for minutes in (16, 22, 28)] == [0, 0, 0]
    assert all(second.run(minutes, job) for minutes in (16, 22, 28))
    assert first.history is None
    assert second.history is not None
    tracked = first.state.latest(PolledQueue).tracked[1]
    assert tracked.run == ALPHA
    assert tracked.is_open, "its own jobs are recorded as before"


def test_the_run_returns_with_the_next_attempt_on_the_first_cluster(daemons, files):
    first, second = daemons
    run_on_alpha(daemons)
    job = make(1, 70)
    for minutes in (70, 71, 76):
        second.run(minutes, job)
        first.run(minutes)
    files.append(make_checkpoint("step_1.pt", written=80))
    second.run(82, job)
    for minutes in (131, 132, 133, 134):
        second.run(minutes, replace(job, state=JobState.TIMEOUT, ends_at=at(130)))
        first.run(minutes)
    again = make(2, 140)
    for minutes in (140, 141, 142):
        first.run(minutes, again)
        second.run(minutes)
    assert first.state.latest(SharedRuns).elsewhere == frozenset()
    assert second.state.latest(SharedRuns).elsewhere == {BETA}
    assert [each.job.cluster for each in first.history.attempts] == ["alpha", "beta", "alpha"]
    [known] = first.parts.store.checkpoints.read(ALPHA)
    assert known.attempt[0].cluster == "beta"
    assert second.history is None


def test_flags_of_a_run_that_another_cluster_takes_over_resolve_without_a_message(daemons):
    first, second = daemons
    run_on_alpha(daemons)
    again = make(2, 65, ends_at=at(300), time_limit=timedelta(hours=4))
    for minutes in (65, 66, 70):
        first.run(minutes, again)
        second.run(minutes)
    assert "restarted-without-checkpoint" in first.flags()
    told = first.notices()
    assert told
    job = make(9, 80)
    for minutes in (80, 81, 82):
        second.run(minutes, job)
        first.run(minutes, again)
    assert first.flags() == set()
    assert first.notices() == told
    assert "restarted-without-checkpoint" in second.flags()


def test_a_job_that_still_runs_on_the_first_cluster_is_another_writer(daemons):
    first, second = daemons
    still = make(1, 0, ends_at=at(600))
    for minutes in (0, 1):
        first.run(minutes, still)
        second.run(minutes)
    job = make(1, 10)  # with the same id
    for minutes in (10, 11, 12):
        second.run(minutes, job)
        first.run(minutes, still)
    (flag,) = [each for each in second.parts.store.flags.list_open("beta") if each.finding.rule == "concurrent-writers"]
    assert flag.finding.evidence["other_jobs"] == ["1"]
    assert "concurrent-writers" not in first.flags()


def test_a_daemon_that_starts_while_another_one_acts_scans_nothing_of_the_run(daemons, url, files):
    first, second = daemons
    still = make(1, 0, ends_at=at(600))
    for minutes in (0, 1):
        first.run(minutes, still)
    second.run(10, make(5, 10))
    later = Daemon("alpha", url, files, 11)
    assert later.run(12, still) == 0
    assert later.history is None
    later.parts.store.close()


def test_a_declaration_that_the_other_cluster_withdraws_parts_the_runs(daemons):
    first, second = daemons
    still = make(1, 0, ends_at=at(600))
    job = make(5, 10)
    for minutes in (0, 1, 10, 11):
        first.run(minutes, still)
        second.run(minutes, *([job] if minutes > 9 else []))
    first.run(12, still)
    assert first.history is None
    second.parts = replace(second.parts, shared=())
    second.run(13, job)
    first.run(14, still)
    assert first.state.latest(SharedRuns) == SharedRuns()
    first.run(20, still)
    assert [each.job.cluster for each in first.history.attempts] == ["alpha"]


def test_each_daemon_records_the_clock_of_its_slurm_and_runs_part_while_they_differ(daemons):
    first, second = daemons
    still = make(1, 0, ends_at=at(600))
    job = make(5, 10)
    for minutes in (0, 1, 10, 11):
        first.run(minutes, still)
        second.run(minutes, *([job] if minutes > 9 else []))
    first.run(12, still)
    assert first.state.latest(SharedRuns).elsewhere == {ALPHA}
    clock = datetime.now(UTC)
    first.parts = replace(first.parts, read_clock=lambda: clock + timedelta(minutes=3))
    second.parts = replace(second.parts, read_clock=lambda: clock)
    second.run(21, job)
    first.run(22, still)
    assert first.state.latest(SharedRuns) == SharedRuns()
    first.parts = replace(first.parts, read_clock=lambda: Unknown(what="clock", reason="timed out"))
    first.run(40, still)
    assert first.state.latest(SharedRuns) == SharedRuns(), "the last answer counts"
    first.parts = replace(first.parts, read_clock=lambda: clock)
    first.run(41, still)
    assert first.state.latest(SharedRuns).elsewhere == {ALPHA}
