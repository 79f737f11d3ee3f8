"""`ckptd doctor`: one line for each check, from the account that needs it, whatever else is broken."""

import json
import os
import subprocess
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.core.runs.shared_files import SharedDirectory
from ckptd.service.doctor import checks as all_checks
from ckptd.service.doctor import host_checks
from ckptd.slurm.slurmrestd import DESCRIPTION
from demo.patience import allow
from slurm import stand_in_slurmrestd
from support.mail_server import free_port, wait_until
from support.migrated import open_record

CONF = (
    'case "$*" in *--version*) echo "slurm 22.05.8";; *ping*) echo "Slurmctld(primary) at n is UP";;'
    ' *"show config"*) echo "Configuration data as of $(date +%s)"; echo "ClusterName = c1";'
    ' echo "SlurmUser = slurm(64)"; echo "PrivateData = {private}";; esac'
)
CHECKS = all_checks.CHECKS


@pytest.fixture
def world(monkeypatch):
    """A directory that every account can read, with stand-ins for Slurm's programs."""
    with tempfile.TemporaryDirectory(prefix="ckptd-doctor-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        programs = root / "programs"
        programs.mkdir()
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        world = World(root, programs, monkeypatch)
        for name in ("squeue", "sacct", "scontrol", "sacctmgr", "scancel", "sbatch"):
            world.program(name, CONF.format(private="none"))
        yield world


class World:
    def __init__(self, root, programs, monkeypatch):
        self.root, self.programs, self._monkeypatch = root, programs, monkeypatch

    def program(self, name, text):
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def doctor(self, more="", *words, timeout=30, topics=None):
        """Return what the checks found: all of them, or those of some topics, each of which is a process."""
        chosen = tuple(each for each in CHECKS if topics is None or each.topic in topics)
        self._monkeypatch.setattr(all_checks, "CHECKS", chosen)
        (self.root / "state").mkdir(exist_ok=True)
        config = self.root / "config.toml"
        if "[service]" not in more:
            more += f'[service]\nstate_directory = "{self.root}/state"\n'
        config.write_text(more)
        arguments = ["--config", str(config), "doctor", "--json", "--timeout", str(timeout), *words]
        done = CliRunner().invoke(cli.main, arguments)
        document = json.loads(done.stdout)
        assert done.exit_code == (1 if document["errors"] else 0)
        assert document["errors"] == sum(each["verdict"] == "error" for each in document["checks"])
        assert all(each["advice"] for each in document["checks"] if each["verdict"] != "ok")
        return document["checks"]


def found(checks, topic, verdict=None):
    return [each["text"] for each in checks if each["topic"] == topic and verdict in {None, each["verdict"]}]


def errors(checks):
    """Return the errors but those about this machine: its file of the configuration is no root's own."""
    return {each["topic"] for each in checks if each["verdict"] == "error"} - {"configuration"}


def test_a_site_where_everything_works_has_no_error(world):
    checks = world.doctor('[scan]\nallowed_roots = ["/tmp"]\n')
    assert not errors(checks), checks
    assert "squeue, sacct, scontrol: version 22.05.8" in found(checks, "slurm")
    assert "slurmctld answers; the cluster is 'c1'" in found(checks, "slurm")
    assert any("mounted on " in text and "atime" in text for text in found(checks, "roots"))
    assert {each["topic"] for each in checks} >= {"state", "database", "mail", "kernel", "prometheus", "unit"}


def test_an_invalid_file_hides_no_other_error(world):
    checks = world.doctor(
        f'[web]\nlisten = "hello"\n[scan]\nallowed_roots = ["{world.root}/not-mounted"]\n'
        f'[apprise]\nurls_file = "{world.root}/none"\n[mail]\nca_file = "{world.root}/no-ca"\n'
    )
    assert any("web.listen: 'hello'" in text for text in found(checks, "configuration", "error"))
    assert errors(checks) >= {"roots", "files"}
    assert any(text.startswith("apprise.urls_file: ") for text in found(checks, "files", "error"))
    assert not found(checks, "slurm", "error")


def test_a_file_that_is_no_toml_is_one_error_beside_all_other_checks(world):
    checks = world.doctor("[scan\n[service]\n")
    assert len(found(checks, "configuration", "error")) >= 1
    assert found(checks, "slurm", "ok")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_that_is_no_toml_leaves_what_the_unit_says(world, monkeypatch):
    monkeypatch.setattr(host_checks, "read_unit_environment", lambda: {"CKPTD_SERVICE__USER": "nobody"})
    checks = world.doctor("[scan\n[service]\n")
    assert found(checks, "configuration", "error")
    assert {each["account"] for each in checks} == {"root", "nobody"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_state_directory_that_the_daemon_cannot_make_is_an_error(world):
    state = world.root / "absent"
    checks = world.doctor(f'[service]\nuser = "nobody"\nstate_directory = "{state}"\n', topics={"state"})
    assert found(checks, "state", "error") == [f"the state directory {state} does not exist"]
    advice = [each["advice"] for each in checks if each["topic"] == "state"]
    assert advice == [f"`install --directory --owner=nobody {state}`"]


def test_files_in_the_place_of_directories_are_errors(world):
    file = world.root / "file"
    file.touch()
    checks = world.doctor(
        f'[service]\nstate_directory = "{file}"\n[scan]\nallowed_roots = ["{file}"]\n', topics={"state", "roots"}
    )
    assert found(checks, "state", "error") == [f"{file} is no directory"]
    assert found(checks, "roots", "error") == [f"scan.allowed_roots: {file} is no directory"]


def test_a_missing_pyslurm_is_an_error_where_it_is_the_source(world):
    checks = world.doctor('[slurm]\nsource = "pyslurm"\n', topics={"slurm"})
    assert found(checks, "slurm", "error") == ["pyslurm: program missing: error: No module named 'pyslurm'"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_people_are_told_to_run_it_as_root(world, monkeypatch):
    assert not [
        text
        for text in found(world.doctor(topics={"account"}), "account")
        if text.startswith("this account can check neither")
    ]
    monkeypatch.setattr("ckptd.service.doctor.checks.os.geteuid", lambda: 1000)
    assert [
        text
        for text in found(world.doctor(topics={"account"}), "account")
        if text.startswith("this account can check neither")
    ]


def test_a_check_that_hangs_is_given_up_with_its_program_and_delays_nothing_else(world):
    started = world.root / "squeue.pid"
    world.program("squeue", f"echo $$ > {started}; sleep 600")
    began = time.monotonic()
    checks = world.doctor("", timeout=2, topics={"slurm", "kernel"})
    assert time.monotonic() - began < allow(20)
    program = int(started.read_text())
    wait_until(lambda: not Path(f"/proc/{program}").exists())
    assert found(checks, "slurm", "error") == ["the check took over 2 s"]
    assert found(checks, "kernel")


def test_slurm_that_is_missing_hidden_or_wrong_is_said(world):
    world.program("squeue", 'echo "slurm 24.05.1"')
    checks = world.doctor('[slurm]\ncluster = "other"\n', topics={"slurm"})
    warnings = found(checks, "slurm", "warning")
    assert "Slurm's programs have different versions: squeue 24.05.1, sacct 22.05.8, scontrol 22.05.8" in warnings
    assert "slurm.cluster is 'other', but ClusterName of slurm.conf is 'c1'" in warnings
    world.program("scontrol", CONF.format(private="none").replace("+%s", "-d -5min +%s"))
    assert any(
        "differs from slurmctld's by " in text for text in found(world.doctor(topics={"slurm"}), "slurm", "error")
    )
    for path in world.programs.iterdir():
        path.unlink()
    world.program("scontrol", "exit 127")
    assert any("scontrol --version failed" in text for text in found(world.doctor(topics={"slurm"}), "slurm", "error"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_doctor_prints_the_command_for_an_account_that_does_not_see_all_jobs_as_it_is_typed(world):
    world.program("scontrol", CONF.format(private="jobs"))
    world.program("sacctmgr", 'case "$*" in *--version*) echo "slurm 22.05.8";; *) echo None;; esac')
    checks = world.doctor('[service]\nuser = "nobody"\n', topics={"slurm"})
    advised = [each["advice"] for each in checks if "PrivateData" in each["text"]]
    assert advised
    assert all("`sacctmgr add user USER account=... adminlevel=operator`" in each for each in advised)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("answer", "verdict"), [("Administrator", "ok"), ("Operator", "error"), ("None", "error"), (None, "warning")]
)
def test_doctor_says_whether_summaries_can_be_written(world, answer, verdict):
    failed = "echo sacctmgr: error: Connection refused >&2; exit 1"
    told = failed if answer is None else f"echo {answer}"
    world.program("sacctmgr", f'case "$*" in *--version*) echo "slurm 22.05.8";; *) {told};; esac')
    checks = world.doctor('[actions]\nsummary = ["*"]\n[service]\nuser = "nobody"\n', topics={"slurm"})
    assert [each["verdict"] for each in checks if "AdminComment" in each["text"]] == [verdict]
    assert not [
        each
        for each in world.doctor('[service]\nuser = "nobody"\n', topics={"slurm"})
        if "AdminComment" in each["text"]
    ]


@pytest.mark.parametrize(("enforced", "verdict"), [("associations,limits,qos", "error"), ("none", "warning")])
def test_names_of_verify_jobs_that_accounting_does_not_have_are_errors_where_slurm_enforces_them(
    world, enforced, verdict
):
    said = CONF.format(private="none").replace(
        'echo "ClusterName = c1";',
        f'echo "ClusterName = c1"; echo "AccountingStorageEnforce = {enforced}"; echo "MaxArraySize = 10";',
    )
    world.program(
        "scontrol", said.replace("esac", '*partition*) echo "PartitionName=main MaxTime=1:00:00 State=UP";; esac')
    )
    checks = world.doctor(
        '[verify_jobs]\npartition = "main"\naccount = "nobody"\ntime_limit = "1h"\n', topics={"verify_jobs"}
    )
    assert (
        found(checks, "verify_jobs", verdict)[-1] == "verify_jobs.account: Slurm's accounting has no account 'nobody'"
    )
    assert "verify_jobs.max_tasks is 64, and MaxArraySize of slurm.conf is 10" in found(checks, "verify_jobs", "error")


def test_each_relay_is_tried_by_itself(world):
    first, second = free_port(), free_port()
    checks = world.doctor(
        '[mail]\nmode = "on"\nsender = "a@example.org"\nrecipient = "{user}@example.org"\n'
        f'relays = ["127.0.0.1:{first}", "127.0.0.1:{second}"]\n',
        topics={"mail"},
    )
    told = found(checks, "mail", "error")
    assert [text.partition(": ")[0] for text in told] == [f"relay 127.0.0.1:{first}", f"relay 127.0.0.1:{second}"]


def test_the_database_is_checked_for_its_tables_and_whether_it_can_be_written(world, database_url):
    told = found(world.doctor(f'[store]\nurl = "{database_url}"\n', topics={"database"}), "database")
    assert any("answers" in text for text in told)
    assert "the tables match this version" in told
    assert "this account can write to the database" in told


def test_shared_directories_are_checked_here_and_in_the_records_of_the_other_cluster(world):
    url = f"sqlite:///{world.root}/ckptd.sqlite3"
    shared = f'[[shared]]\nclusters = ["c1", "c2"]\ndirectories = ["{world.root}", "{world.root}-none"]\n'
    settings = f'[slurm]\ncluster = "c1"\n[store]\nurl = "{url}"\n{shared}'
    store = open_record(url)
    store.declared_shares.record("c2", [SharedDirectory("c2", "c1", str(world.root))])
    store.close()
    checks = world.doctor(settings, topics={"shared"})
    assert found(checks, "shared", "ok") == [f"{world.root} is shared with the cluster 'c2'"]
    assert found(checks, "shared", "error") == [f"[[shared]]: there is no {world.root}-none on this host"]
    assert found(checks, "shared", "warning") == [
        f"{world.root}-none is not shared: the cluster 'c2' does not declare it"
    ]
    assert not found(world.doctor(settings.replace('"c1", "c2"', '"c3", "c4"'), topics={"shared"}), "shared", "warning")
    store = open_record(url)
    store.clusters.record_poll("c1", datetime.now(UTC))
    store.declared_shares.record_clock("c1", datetime.now(UTC))
    store.declared_shares.record_clock("c2", datetime.now(UTC) + timedelta(minutes=2))
    store.close()
    (told, _) = found(world.doctor(settings, topics={"shared"}), "shared", "warning")
    assert told == f"{world.root} is not shared: the clocks of Slurm on 'c1' and 'c2' differ by 120 s"


def test_a_database_that_is_away_is_named_without_its_password(world):
    checks = world.doctor(f'[store]\nurl = "postgresql://u:hunter2@127.0.0.1:{free_port()}/d"\n', topics={"database"})
    (told,) = found(checks, "database", "error")
    assert "hunter2" not in told
    assert "postgresql://" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_missing_account_is_said_once_with_all_that_was_not_checked_from_it(world):
    checks = world.doctor(f'[service]\nuser = "no-such-user"\nstate_directory = "{world.root}/state"\n')
    skipped, named = found(checks, "account", "error")
    assert named == "service.user: there is no account 'no-such-user' on this host"
    assert skipped.endswith(
        "nothing was checked from there: account, state, slurm, database, shared, mail, apprise, files"
    )
    assert "no-such-user" not in {each["account"] for each in checks}
    assert not errors(checks) - {"account"}, checks
    assert found(checks, "slurm", "ok"), "what the agent needs is checked"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_state_directory_is_that_of_the_unit_and_not_of_the_account_that_checks_it(world, monkeypatch):
    state = world.root / "of-the-unit"
    state.mkdir()
    os.chown(state, 65534, 65534)
    monkeypatch.setattr(host_checks, "read_unit_environment", lambda: {"STATE_DIRECTORY": str(state)})
    checks = world.doctor('[service]\nuser = "nobody"\n', topics={"state", "database"})
    assert found(checks, "state") == [f"this account can write to the state directory {state}"]
    assert found(checks, "database", "ok"), "it can be made there"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_database_in_a_closed_directory_is_not_said_to_be_missing(world):
    closed = world.root / "closed"
    closed.mkdir(mode=0o700)
    open_record(f"sqlite:///{closed}/record.db").close()
    (told,) = found(
        world.doctor(
            f'[service]\nuser = "nobody"\n[store]\nurl = "sqlite:///{closed}/record.db"\n', topics={"database"}
        ),
        "database",
        "error",
    )
    assert told.startswith(f"the database {closed}/record.db cannot be checked: permission denied; run doctor as root")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_state_directory_on_a_read_only_file_system_is_not_one_of_another_owner(world):
    state = world.root / "state"
    state.mkdir()
    for words in (["--bind", state], ["-o", "remount,bind,ro"]):
        subprocess.run(["mount", *words, state], check=True, timeout=allow(30))
    try:
        checks = world.doctor(f'[service]\nstate_directory = "{state}"\n', topics={"state"})
    finally:
        subprocess.run(["umount", state], check=True, timeout=allow(30))
    assert f"the file system of the state directory {state} is mounted read-only" in found(checks, "state", "error")
    assert not any("chown" in str(each) for each in checks if each["topic"] == "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_files_are_checked_from_the_account_that_reads_them(world):
    secret = world.root / "password"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    state = world.root / "state"
    open_record(f"sqlite:///{world.root}/mine.sqlite3").close()
    state.mkdir()
    checks = world.doctor(
        f'[service]\nuser = "nobody"\nstate_directory = "{state}"\n'
        f'[store]\nurl = "sqlite:///{world.root}/mine.sqlite3"\n[mail]\npassword_file = "{secret}"\nusername = "u"\n',
        topics={"files", "state", "database"},
    )
    assert f"mail.password_file: this account cannot read {secret}" in found(checks, "files", "error")
    assert f"this account cannot write to the state directory {state}" in found(checks, "state", "error")
    assert found(checks, "database", "error"), "its file belongs to root"
    assert {each["account"] for each in checks} == {"root", "nobody"}
    assert state.stat().st_uid == 0, "nothing was changed"


def test_a_secret_that_everyone_can_read_is_a_warning(world):
    secret = world.root / "password"
    secret.write_text("hunter2")
    secret.chmod(0o644)
    checks = world.doctor(f'[mail]\npassword_file = "{secret}"\nusername = "u"\n', topics={"files"})
    assert found(checks, "files", "warning") == [f"mail.password_file: everyone can read {secret}"]


def test_config_check_live_prints_the_same_lines(world):
    config = world.root / "config.toml"
    config.write_text(f'[service]\nuser = "no-such-user"\nstate_directory = "{world.root}"\n')
    done = CliRunner().invoke(cli.main, ["--config", str(config), "config", "check", "--live"])
    assert done.exit_code == 1
    assert "error   account (" in done.stdout
    assert "there is no account 'no-such-user' on this host" in done.stdout


def test_slurmrestd_is_asked_and_a_token_in_the_clear_is_said(world):
    token = world.root / "token"
    token.touch(0o600)
    token.write_text("a.b.c")
    empty, jobs = stand_in_slurmrestd.http('{"errors": [], "jobs": []}'), "/slurm/v0.0.38/jobs"
    with stand_in_slurmrestd.serve({DESCRIPTION: stand_in_slurmrestd.offer(38), jobs: empty}) as server:
        checks = world.doctor(f'[slurm]\nsource = "slurmrestd"\nrest_url = "{server.url}"\n', topics={"slurm"})
        assert f"slurmrestd answers with 0 jobs; ckptd reads {jobs}" in found(checks, "slurm", "ok")
        server.answers[jobs] = stand_in_slurmrestd.http("", "401 UNAUTHORIZED")  # as if the token had expired
        checks = world.doctor(f'[slurm]\nsource = "slurmrestd"\nrest_url = "{server.url}"\n', topics={"slurm"})
        assert any("HTTP status 401" in text for text in found(checks, "slurm", "error"))
    remote = f'rest_url = "http://slurm.invalid:{free_port()}"\nrest_token_file = "{token}"\n'
    checks = world.doctor(f'[slurm]\nsource = "slurmrestd"\n{remote}', topics={"slurm"})
    assert any(text.startswith("slurmrestd: ") for text in found(checks, "slurm", "error"))
    assert found(checks, "slurm", "warning") == ["slurm.rest_url: the token goes to slurm.invalid unencrypted"]
