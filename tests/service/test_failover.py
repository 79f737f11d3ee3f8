"""Two daemons under load, of which the acting one is stopped, and cut off; `tests/fuzz/failover.py` does it often."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.patience import allow

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of users who exist need root")
def test_each_action_is_done_once_though_the_acting_daemon_is_stopped_or_cut_off_under_load():
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/daemon:{ROOT}/tests"}
    argv = [sys.executable, ROOT / "tests/fuzz/failover.py", "--rounds=2", "--seed=3"]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=allow(900), check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    assert "2 takeovers" in done.stdout
