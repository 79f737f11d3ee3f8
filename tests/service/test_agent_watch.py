"""An agent that is stopped ends the daemon, so that systemd starts both again."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckptd.config import Config
from ckptd.service import daemon as daemon_module
from ckptd.service.agent_start import start_agent
from ckptd.service.agent_watch import AgentWatch
from ckptd.service.daemon import Daemon
from demo.patience import allow
from support.mail_server import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def agent():
    client = start_agent(None, is_configured=False)
    client.wait_until_ready()
    yield client
    os.kill(client._process.pid, signal.SIGCONT)
    client.close()


@pytest.fixture
def running(agent, monkeypatch):
    """A daemon that waits, with this agent."""
    monkeypatch.setattr(daemon_module, "MAX_AGENT_SILENCE", 2.0)
    daemon = Daemon(Config(), None, {})
    daemon._schedule = SimpleNamespace(repair=lambda *_: None)
    daemon._opened = SimpleNamespace(helpers=SimpleNamespace(agent=agent))
    yield daemon
    daemon._scan_pool.shutdown()


def make_term():
    return SimpleNamespace(cluster="c", is_valid=True, describe_loss=lambda: None)


def test_an_agent_that_answers_is_never_silent(agent):
    watch = AgentWatch(agent, 3)
    watch.start()
    watch.is_silent()
    wait_until(lambda: watch._call_count == 0, 20)
    watch.stop()


def test_a_stopped_agent_ends_the_daemon_with_a_status_that_systemd_restarts(running, agent, caplog):
    os.kill(agent._process.pid, signal.SIGSTOP)
    with caplog.at_level(logging.ERROR):
        assert running._wait(make_term()) == 1
    assert "agent has not answered for 2 s; stopping the daemon" in caplog.text


def check(config):
    argv = [sys.executable, "-m", "ckptd", "--config", str(config), "config", "check"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=allow(60), check=False)


def test_a_reload_tells_the_daemon_and_then_checks_the_file_so_that_systemctl_fails_too_if_it_is_refused():
    lines = (ROOT / "deploy/systemd/ckptd.service").read_text().splitlines()
    commands = [line.removeprefix("ExecReload=") for line in lines if line.startswith("ExecReload=")]
    assert commands == ["+/bin/kill -HUP $MAINPID", "/opt/ckptd/bin/ckptd config check"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts an agent that must trust its file")
def test_the_check_of_root_refuses_what_the_agent_or_the_service_would_refuse(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text("")
    assert check(config).returncode == 0
    config.chmod(0o666)
    done = check(config)
    assert done.returncode == 2
    assert "writable by others than root" in done.stderr
    config.chmod(0o644)
    (tmp_path / "urls").write_text("room json://localhost\n")
    config.write_text(f'[apprise]\nurls_file = "{tmp_path}/urls"\n')
    assert check(config).returncode == 0
    config.write_text(f'[apprise]\nurls_file = "{tmp_path}/urls"\n[service]\nuser = "nobody"\n')
    done = check(config)  # the directory of this test is root's alone
    assert done.returncode == 2
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ("store", "password_file"),
        ("mail", "password_file"),
        ("mail", "ca_file"),
        ("apprise", "urls_file"),
        ("web", "config_file"),
    ],
)
def test_the_check_refuses_a_file_that_is_missing(tmp_path, section, setting):
    config = tmp_path / "config.toml"
    user = 'username = "u"\n' if (section, setting) == ("mail", "password_file") else ""
    config.write_text(f'[{section}]\n{setting} = "{tmp_path}/none"\n{user}')
    done = check(config)
    assert done.returncode == 2
    assert f"{section}.{setting}: {tmp_path}/none: No such file or directory" in done.stderr


def test_in_the_journal_the_error_of_a_command_is_an_error(tmp_path):
    with open(tmp_path / "stderr", "w+b") as file:
        status = os.fstat(file.fileno())
        environment = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        argv = [sys.executable, "-m", "ckptd", "--config", str(tmp_path / "none"), "run"]
        subprocess.run(argv, stderr=file, env=environment, timeout=allow(60), check=False)
        file.seek(0)
        assert file.read().startswith(f"<3>{tmp_path}/none: No such file".encode())
