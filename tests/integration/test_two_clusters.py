"""Two real clusters with one accounting and one database: job ids, users and directories collide, and nothing mixes.

Each cluster has its own slurmctld, slurmd and daemon; slurmdbd, MariaDB and PostgreSQL are the same for both. Both
count their jobs from 1. The users of `a` submit to both.
"""

import json
import os
import re
import subprocess
import urllib.request
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg
import pytest
from click.testing import CliRunner

from ckptd.cli import main
from ckptd.core.model import JobState
from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import SqueueSource
from demo import ports
from demo.cluster import PrivateCluster
from demo.patience import allow
from demo.watcher import CKPTD
from support.quick_watcher import QuickWatcher

SETTINGS = """
[slurm]
poll_interval = "1s"
timeout = "5s"
backfill_after = "5s"
[scan]
interval = "1s"
write_grace = "1s"
allowed_roots = ["{homes}"]
[[shared]]
clusters = ["a", "b"]
directories = ["TOGETHER"]
[health]
min_job_duration = "1s"
[health.rules.restarted-without-checkpoint]
min_loss = "1s"
[mail]
mode = "on"
sender = "ckptd@example.org"
recipient = "{{user}}@example.org"
relays = ["127.0.0.1:1"]
security = "none"
[actions]
resubmit = ["main"]
min_loss = "1s"
[web]
listen = "{listen}"
operators = ["root"]
[store]
url = "DATABASE"
[service]
state_directory = "{state}"
"""
SAVE = "n=$(ls ckpt | wc -l); cp {source} .new; mv .new ckpt/step_$((n + 1)).safetensors\n"
# What its script names loses to the command line of its user; ckptd must not submit it there.
GOES_ON = "#!/bin/bash\n#SBATCH --clusters=b\n" + SAVE + "echo $SLURM_CLUSTER_NAME $SLURM_JOB_ID >>began\nsleep 1000\n"
SLEEPS = "#!/bin/bash\n" + SAVE + "exec sleep 1000\n"
FAILS = "#!/bin/bash\nsleep 2\nexit 3\n"


class Site(NamedTuple):
    """One cluster, its daemon, and what its daemon knows."""

    slurm: PrivateCluster
    watcher: QuickWatcher

    def read(self, *command):
        return self.watcher.read(*command)

    def rows(self):
        return {row["job_id"]: row for row in self.read("jobs")["jobs"]}

    def attempts(self, job_id):
        """Return the attempts of a job, none while it is not on record."""
        answer = self.run("show", str(job_id), "--json")
        runs = json.loads(answer.stdout)["runs"] if answer.exit_code == 0 else []
        return [each for run in runs for each in run["attempts"] if each["job_id"] == job_id]

    def run(self, *command):
        argv = ["--config", str(self.watcher.config), *command]
        return CliRunner().invoke(main, argv, env=self.slurm.environment)

    def fetch(self, path):
        with urllib.request.urlopen(f"http://{self.watcher.address}{path}", timeout=allow(10)) as answer:
            return answer.read().decode()

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.watcher.read_metrics(), re.MULTILINE)
        return float(found[1]) if found else None


@pytest.fixture(scope="module")
def database(postgresql_server):
    address = postgresql_server.create_database()
    yield address
    postgresql_server.drop_database(address)


@pytest.fixture(scope="module")
def clusters():
    prefix = f"ck2c{os.getpid()}-"
    with (
        PrivateCluster(name="a", nodes=1, user_prefix=prefix, with_accounting=True) as first,
        PrivateCluster(name="b", nodes=1, with_accounting=first) as second,
    ):
        yield first, second


@pytest.fixture(scope="module")
def user(clusters):
    made = clusters[0].create_user("u")
    yield made
    for each in clusters:
        each.cancel_jobs(made)


@pytest.fixture(scope="module")
def sites(clusters, database, user):
    settings = SETTINGS.replace("DATABASE", database).replace("{homes}", str(user.home.parent))
    settings = settings.replace("TOGETHER", str(user.home / "together"))
    found = [Site(each, QuickWatcher(each, settings, port=ports.find_free_ports(1)[0])) for each in clusters]
    for site in found:
        site.watcher.start()
    yield found
    for site in found:
        site.watcher.stop()


@pytest.fixture(scope="module")
def save(clusters, request):
    source = request.path.parents[1] / "data/formats/huggingface_shards/run_best/sharded_model"
    copy = clusters[0].directory / "step.safetensors"
    copy.write_bytes((source / "model-00001-of-00002.safetensors").read_bytes())
    copy.chmod(0o644)
    return copy


def submit(site, user, name, script, *options, settings=""):
    """Submit a job to one cluster, in a directory of this name; return its id."""
    work_dir = user.home / name
    (work_dir / "ckpt").mkdir(parents=True, exist_ok=True)
    (work_dir / ".ckptd.toml").write_text(f'directory = "ckpt"\n{settings}')
    for path in (work_dir, *work_dir.iterdir()):
        os.chown(path, user.uid, user.gid)
    return site.slurm.submit(user, script, f"--job-name={name}", *options, work_dir=work_dir)


class Jobs(NamedTuple):
    """The ids of jobs that both clusters have."""

    goes_on: int
    same: int


@pytest.fixture(scope="module")
def jobs(sites, user, save):
    """Submit two jobs to each: one of each pair ends, and the job of the same id on the other cluster runs on."""
    ids = []
    for name, site in zip("ab", sites, strict=True):
        script = GOES_ON.format(source=save)
        wish = "resubmit = true\nmax_resubmits = 1\n"
        first = submit(site, user, f"goes-on-{name}", script, f"--clusters={name}", "--time=5", settings=wish)
        ids.append(Jobs(first, submit(site, user, "same", SLEEPS.format(source=save) if name == "a" else FAILS)))
    assert ids[0] == ids[1]
    return ids[0]


def wait(site, what, holds, seconds=120):
    site.slurm.wait_for(what, holds, seconds=seconds, pause_seconds=0.5)


def make_source(site):
    return SqueueSource(programs=Programs(environment={**os.environ, **site.slurm.environment}))


def test_each_daemon_acts_for_its_own_cluster_and_records_its_own_jobs(sites, jobs):
    for name, site in zip("ab", sites, strict=True):
        wait(site, "both jobs", lambda on=site: jobs.goes_on in on.rows() and on.attempts(jobs.same))
        assert {row["cluster"] for row in site.rows().values()} == {name}
        assert site.metric(f'ckptd_leader{{cluster="{name}"}}') == 1
        labels = set(re.findall(r'cluster="([^"]*)"', site.watcher.read_metrics()))
        assert labels == {name}


def test_of_two_jobs_with_one_id_only_that_ends_which_ended(sites, jobs):
    first, second = sites
    wait(second, "the end", lambda: [each["cause"] for each in second.attempts(jobs.same)] == ["failure"])
    wait(first, "the job to run", lambda: first.rows()[jobs.same]["state"] == "RUNNING")
    assert [each["ended_at"] for each in first.attempts(jobs.same)] == [None]


def test_accounting_of_one_cluster_has_none_of_the_others_rows(sites, jobs):
    since = datetime.now(UTC) - timedelta(hours=1)
    first, second = (make_source(site) for site in sites)

    def read_states(source):
        found = source.read_ended([jobs.same], since)
        return [each.state for each in found if each.ended_at is not None]

    wait(sites[1], "the end to be accounted", lambda: read_states(second) == [JobState.FAILED])
    assert read_states(first) == []
    until = datetime.now(UTC)
    assert [each.job.job_id for each in second.read_past(since, until).jobs] == [jobs.same]
    assert first.read_past(since, until).jobs == ()


def test_a_job_is_submitted_again_to_its_own_cluster_whatever_its_script_says(sites, jobs, user):
    first, second = sites
    began = user.home / "goes-on-a/began"
    wait(first, "its checkpoint", lambda: first.rows()[jobs.goes_on]["checkpoints"] == 1)
    first.slurm.command("scontrol", "update", f"JobId={jobs.goes_on}", "EndTime=now+2")
    wait(first, "the next start", lambda: len(began.read_text().splitlines()) == 2, 180)
    assert [line.split()[0] for line in began.read_text().splitlines()] == ["a", "a"]
    queued = second.slurm.command("squeue", "--local", "--noheader", "--states=all", "--format=%A").split()
    assert sorted(map(int, queued)) == sorted(jobs)
    assert second.rows()[jobs.goes_on]["state"] == "RUNNING"
    assert [each["ended_at"] for each in second.attempts(jobs.goes_on)] == [None]


def test_commands_show_the_clusters_of_the_host_another_one_or_all(sites, jobs, user):
    for name, other, site in zip("ab", "ba", sites, strict=True):
        assert {row["cluster"] for row in site.read("jobs", "--cluster", other)["jobs"]} == {other}
        assert {row["cluster"] for row in site.read("jobs", "--cluster", "all")["jobs"]} == {"a", "b"}
        (row,) = site.read("status")["clusters"]
        assert (row["cluster"], row["slurm_trouble"]) == (name, None)
        both = site.read("show", str(jobs.same), "--cluster", "all")["runs"]
        assert sorted(run["cluster"] for run in both) == ["a", "b"]
        assert {run["run"] for run in both} == {str(user.home / "same/ckpt")}  # the same path, and yet two runs
        assert site.run("jobs", "--cluster", "all").output.splitlines()[0].startswith("cluster\t")
    wait(sites[0], "the lost work", lambda: sites[0].read("report", "--by", "cluster", "--cluster", "all")["rows"])
    report = json.loads(sites[0].run("report", "--by", "cluster", "--cluster", "all", "--json").output)
    assert {row["name"] for row in report["rows"]} == {"a", "b"}


def list_links(site):
    return re.findall(r'<a href="\?[^"]*"[^>]*>(All clusters|a|b)</a>', site.fetch("/"))


def test_the_page_of_either_daemon_switches_between_both(sites, jobs):
    for site in sites:
        wait(site, "a page that was made after both had polled", lambda site=site: list_links(site))
        assert list_links(site) == ["All clusters", "a", "b"]
        for name in "ab":
            found = json.loads(site.fetch(f"/api/v1/jobs?cluster={name}"))["jobs"]
            assert {row["cluster"] for row in found} == {name}
            assert jobs.goes_on in {row["job_id"] for row in found} or name == "a"
        assert {row["cluster"] for row in json.loads(site.fetch("/api/v1/jobs"))["jobs"]} == {"a", "b"}


def test_a_gap_is_filled_from_the_accounting_of_its_own_cluster(sites, user, save):
    first, second = sites
    for site in sites:
        site.watcher.stop()
    running = submit(first, user, "missed", SLEEPS.format(source=save))
    failed = [submit(second, user, "missed", FAILS)]
    while failed[-1] < running:  # the first cluster has had one job more
        failed.append(submit(second, user, "missed", FAILS))
    assert failed[-1] == running
    wait(second, "its end", lambda: second.slurm.read_job(running, "%T") == "FAILED")
    forget_ended_jobs(second.slurm)
    wait(second, "slurmctld to forget it", lambda: not second.slurm.read_job(running, "%T"), 180)
    for site in sites:
        site.watcher.start()
    wait(second, "its record", lambda: [each["cause"] for each in second.attempts(running)] == ["failure"])
    wait(first, "its record", lambda: [each["ended_at"] for each in first.attempts(running)] == [None])
    assert "backfilled" in second.watcher.log.read_text()


def test_a_run_that_starts_over_on_the_other_cluster_is_one_run(sites, user, database):
    first, second = sites
    never_saves = "#!/bin/bash\nexec sleep 1000\n"
    before = submit(first, user, "together/run", never_saves, "--time=5")
    wait(first, "the job to run", lambda: first.attempts(before))
    first.slurm.command("scontrol", "update", f"JobId={before}", "EndTime=now+2")
    wait(first, "its end", lambda: [each["cause"] for each in first.attempts(before)] == ["time-limit"], 180)
    wait(first, "its last scan", lambda: read_scans(database, user)["a"])
    after = submit(second, user, "together/run", never_saves, "--time=60")

    def find_flags(cluster):
        found = first.read("flags", "--cluster", cluster)["flags"]
        return [(each["cluster"], each["job_id"]) for each in found if each["rule"] == "restarted-without-checkpoint"]

    wait(second, "the flag", lambda: find_flags("all") == [("b", after)])
    for site in sites:
        (run,) = site.read("show", str(user.home / "together/run/ckpt"))["runs"]
        assert run["cluster"] == "b"
        assert [(each["cluster"], each["job_id"]) for each in run["attempts"]] == [("a", before), ("b", after)]
        assert [each["kind"] for each in run["attempts"]] == [None, "resubmit"]
    scans = read_scans(database, user)
    wait(second, "more scans", lambda: read_scans(database, user)["b"] > scans["b"] + timedelta(seconds=5))
    assert read_scans(database, user)["a"] == scans["a"]
    assert find_flags("all") == [("b", after)]
    with closing(psycopg.connect(database.replace("+psycopg", ""))) as connection:
        notices = "SELECT cluster FROM notices WHERE payload::text LIKE '%%restarted-without-checkpoint%%'"
        assert connection.execute(notices).fetchall() == [("b",)]


def read_scans(database, user):
    """Return when each cluster last scanned the directory that both share."""
    with closing(psycopg.connect(database.replace("+psycopg", ""))) as connection:
        statement = "SELECT cluster, scanned_at FROM runs WHERE directory = %s"
        return {"a": None, "b": None} | dict(
            connection.execute(statement, [str(user.home / "together/run/ckpt")]).fetchall()
        )


def forget_ended_jobs(slurm):
    conf = slurm.directory / "etc/slurm.conf"
    conf.write_text(conf.read_text().replace("MinJobAge=300", "MinJobAge=2"))
    slurm.command("scontrol", "reconfigure")


def test_a_daemon_does_not_start_for_one_cluster_on_a_host_of_the_other(sites, jobs):
    first, second = sites
    open_before = set(first.rows())
    assert jobs.same in open_before
    configured = first.watcher.config.read_text()
    wrong = first.watcher.config.with_name("wrong.toml")
    wrong.write_text(configured.replace("[slurm]\n", '[slurm]\ncluster = "a"\n'))
    first.watcher.stop()  # so that the lease of the first cluster is free
    try:
        done = subprocess.run(
            [CKPTD, "--config", wrong, "run"],
            env={**os.environ, **second.slurm.environment},
            capture_output=True,
            text=True,
            timeout=allow(60),
            check=False,
        )
        assert done.returncode == 2
        assert 'slurm.cluster is "a", but Slurm here is the cluster "b"' in done.stderr
        assert set(first.rows()) == open_before
    finally:
        first.watcher.start()
    wait(first, "polls of its own", lambda: first.metric('ckptd_slurm_up{cluster="a"}') == 1)
    assert set(first.rows()) == open_before
