import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from ckptd import cli
from ckptd.cli import main, watch
from ckptd.present import listings
from ckptd.store.store import Store
from demo.patience import Deadline, allow
from support.filled_records import fill_once
from web import samples

CKPTD = Path(sys.executable).parent / "ckptd"


@pytest.fixture
def configuration(tmp_path):
    fill_once(f"sqlite:///{tmp_path}/ckptd.sqlite3", samples.fill)
    path = tmp_path / "config.toml"
    path.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    return path


def draw(rows, height, *, is_terminal=True):
    console = Console(force_terminal=is_terminal, width=200, color_system="standard" if is_terminal else None)
    with console.capture() as captured:
        console.print(watch.draw_jobs(rows, samples.NOW, height))
    return captured.get()


@pytest.fixture
def rows(configuration):
    store = Store.open(f"sqlite:///{configuration.parent}/ckptd.sqlite3")
    found = [listings.job_row(row, samples.NOW) for row in store.jobs.list_open(samples.NOW)]
    store.close()
    return found


def test_flagged_jobs_come_first_and_what_does_not_fit_is_counted(rows):
    shown = draw(rows, 5, is_terminal=False)
    assert shown.index("resnet-train") < shown.index("nightly")
    assert "no-directory" not in shown
    assert "and 1 more" in shown
    assert "3 jobs started, 2 flagged" in shown


def test_colours_are_only_for_terminals(rows):
    assert "\x1b[33m" in draw(rows, 20)
    assert "\x1b" not in draw(rows, 20, is_terminal=False)


def test_little_time_is_red(rows):
    rows[0]["time_left_seconds"] = 59
    assert "31m59 s" in draw(rows, 20)


def test_a_watched_terminal_shows_the_jobs_and_ctrl_c_ends_it_well(configuration):
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "30"}
    command = [CKPTD, "--config", configuration, "jobs", "--watch", "1"]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        shown = b""
        deadline = Deadline(60)
        while shown.count(b"resnet-train") < 2:  # the list was shown anew
            assert not deadline.has_passed(), shown
            if select.select([controller], [], [], 1)[0]:
                shown += os.read(controller, 65536)
        process.send_signal(signal.SIGINT)
        while select.select([controller], [], [], allow(10))[0]:
            try:
                os.read(controller, 65536)
            except OSError:  # nobody holds the other end any more
                break
        assert process.wait(allow(30)) == 0
    os.close(controller)
    assert b"<script>" in shown
    assert b"\xe2\x80\xae" not in shown


def test_watching_without_a_terminal_is_refused(configuration):
    for options in (["--watch"], ["--watch", "2", "--json"]):
        done = CliRunner().invoke(main, ["--config", str(configuration), "jobs", *options])
        assert done.exit_code == 2
        assert "--watch needs a terminal" in done.output


def test_a_list_in_a_pipe_has_no_colours(configuration):
    done = subprocess.run(
        [CKPTD, "--config", configuration, "jobs"], capture_output=True, check=True, timeout=allow(60), env=os.environ
    )
    assert b"\x1b" not in done.stdout
    assert b"resnet-train" in done.stdout


def test_the_shell_completes_commands(configuration):
    environment = {**os.environ, "_CKPTD_COMPLETE": "bash_complete", "COMP_WORDS": "ckptd jo", "COMP_CWORD": "1"}
    done = subprocess.run([CKPTD], capture_output=True, text=True, check=True, timeout=allow(60), env=environment)
    assert done.stdout.split() == ["plain,jobs"]


@pytest.mark.parametrize(
    ("variables", "has_escapes"), [({}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)]
)
def test_a_terminal_that_shows_no_colours_gets_none(configuration, variables, has_escapes):
    controller, terminal = pty.openpty()
    colours = {"TERM": "xterm", "NO_COLOR": "", "COLUMNS": "200", "PYTHONPATH": f"{Path(cli.__file__).parents[2]}"}
    command = [sys.executable, "-m", "ckptd", "--config", configuration, "jobs"]
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, env={**os.environ, **colours, **variables}) as job:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # nobody holds the other end any more
            while part := os.read(controller, 65536):
                shown += part
        assert job.wait(allow(60)) == 0, shown
    os.close(controller)
    assert b"resnet-train" in shown
    assert (b"\x1b" in shown) is has_escapes
