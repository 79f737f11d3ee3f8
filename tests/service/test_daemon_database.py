"""The real daemon on a real PostgreSQL that goes away and comes back."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from demo.patience import allow
from support.forked_daemon import ForkedDaemon, run_ckptd
from support.mail_server import free_port, wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def daemon(tmp_path, postgresql_url):
    """A daemon whose address is beside it as `port`; its database's password stands in a file."""
    port, password = free_port(), postgresql_url.split(":")[2].split("@")[0]
    (tmp_path / "password").write_text(password)
    config = tmp_path / "config.toml"
    config.write_text(
        f'[slurm]\nsource = "replay"\ncluster = "c1"\nreplay_path = "{ROOT}/tests/data/slurm/22.05.8"\n'
        f'poll_interval = "1s"\n[service]\nstate_directory = "{tmp_path}"\n[web]\nlisten = "127.0.0.1:{port}"\n'
        f'[store]\nurl = "{postgresql_url.replace(password, "")}"\npassword_file = "{tmp_path}/password"\n'
    )
    with (tmp_path / "log").open("wb") as log:
        process = ForkedDaemon(run_ckptd, "--config", str(config), "run", log=log, folder=tmp_path)
        process.port, process.password = port, password
        yield process
        process.kill()
        process.wait()


def ask(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=allow(10)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return None, ""


def test_a_daemon_outlives_its_database_says_so_and_goes_on(daemon, postgresql_server, tmp_path):
    def metric(name):
        lines = ask(daemon.port, "/metrics")[1].splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{"))), None)

    wait_until(lambda: metric("ckptd_last_poll_timestamp_seconds"), 60)
    wait_until(lambda: metric("ckptd_database_up") == 1, 90)  # housekeeping tells it
    postgresql_server.halt()
    try:
        wait_until(lambda: metric("ckptd_database_up") == 0, 30)
        wait_until(lambda: "nothing is recorded until it answers" in (tmp_path / "log").read_text(), 30)
        stopped_at = metric("ckptd_last_poll_timestamp_seconds")
        assert ask(daemon.port, "/api/v1/status")[0] == 503
        assert daemon.poll() is None
    finally:
        postgresql_server.resume()
    wait_until(lambda: metric("ckptd_database_up") == 1, 90)
    wait_until(lambda: metric("ckptd_last_poll_timestamp_seconds") > stopped_at, 30)
    wait_until(lambda: "the database has answered for 30 s again" in (tmp_path / "log").read_text(), 90)
    daemon.terminate()
    assert daemon.wait(allow(20)) == 0
    log = (tmp_path / "log").read_text()
    assert "ERROR the database postgresql+psycopg://ckptd:***@127.0.0.1:" in log
    assert daemon.password not in log
    assert "Traceback" not in log
    assert log.endswith(" INFO daemon stopped: cluster c1\n")
    assert log.count("nothing is recorded until it answers") == 1, "for all steps and reasons"
    assert "step poll failed" not in log


def test_a_daemon_whose_database_was_restored_ends_because_it_may_know_more(
    daemon, postgresql_server, postgresql_url, postgresql_tables, tmp_path
):
    wait_until(lambda: "daemon started" in (tmp_path / "log").read_text(), 60)
    postgresql_server.replace_database(postgresql_url, postgresql_server.create_database(like=postgresql_tables))
    assert daemon.wait(allow(60)) == 1
    log = (tmp_path / "log").read_text()
    assert "the database was restored from a copy, or another server has taken over" in log
    assert "stopping the daemon, because only a restart reads again what it holds" in log
    assert "another daemon acts" not in log
    assert "Traceback" not in log
