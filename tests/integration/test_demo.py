"""`make demo` as its user sees it: it shows what ckptd finds, and Ctrl-C leaves nothing."""

import os
import pwd
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from demo import processes
from demo.patience import allow

ROOT = Path(__file__).parents[2]


def start_demo(prefix, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "deploy"), "COLUMNS": "160"}
    argv = [sys.executable, "-u", "-m", "demo", "--user-prefix", prefix]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True, **options)


def read_until(stream, pattern):
    """Read lines until one matches; return the match, or fail with everything that was printed."""
    seen = []
    for line in stream:
        seen.append(line)
        if found := re.search(pattern, line):
            return found
    raise AssertionError("".join(seen))


@contextmanager
def end_after(demo, seconds):
    """Let a demonstration that does not show what is waited for end with a failure, instead of never."""
    timer = threading.Timer(seconds, demo.terminate)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_the_demo_shows_flags_and_leaves_nothing_after_ctrl_c():
    prefix = f"ck{os.getpid()}d-"
    with start_demo(prefix) as demo, end_after(demo, allow(300)):
        directory = Path(read_until(demo.stdout, r"Log (\S+)/log/ckptd.log")[1])
        read_until(demo.stdout, r"critical.*concurrent-writers")
        demo.send_signal(signal.SIGINT)
        read_until(demo.stdout, "Everything is stopped and removed")
        assert demo.wait() == 0
    assert not directory.exists()
    assert processes.list_processes(directory, []) == []
    assert not [user.pw_name for user in pwd.getpwall() if user.pw_name.startswith(prefix)]


def test_without_root_the_demo_says_so_in_one_sentence(user):
    script = "import os, sys; os.setuid(int(sys.argv.pop())); from demo.__main__ import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "deploy"), "COLUMNS": "160"}
    preloaded = f"import demo.__main__, demo.cluster, rich._emoji_codes; {script}"  # what a user cannot read later
    done = subprocess.run(
        [sys.executable, "-c", preloaded, str(user.uid)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=allow(60),
    )
    assert done.returncode == 1
    assert "needs root" in done.stdout
    assert "Traceback" not in done.stderr
