"""Set the clock under a running daemon, in an emulated host, and see that it goes on as if nothing had happened.

    python tests/fuzz/clock_jump.py [--kernel DIRECTORY]

`date -s` sets the clock of that host by 3 h, back, and by two days; this host's clock is compared with its monotonic
one. After each jump, polls go on at their interval, no step runs more often than its interval allows, no flag opens or
resolves, the agent is the same process, no checkpoint is removed or deleted, and SIGTERM ends the daemon with status 0.
It ends with 1 otherwise. `make test-long` unpacks the kernel; fuzz/clock_jump_worlds.py is what the other host runs.
"""

import argparse
import compileall
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "deploy")]

from support.emulated_host import EmulatedHost  # noqa: E402

KERNEL = ROOT / ".venv/kernel"
MAX_DRIFT = 1.0  # seconds by which NTP may correct this host's clock meanwhile


def read_offset():
    """Return by how much this host's clock is ahead of the monotonic one."""
    return time.time() - time.monotonic()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--kernel", type=Path, default=KERNEL, help="an unpacked package linux-image-*")
    options = arguments.parse_args()
    if not (options.kernel / "boot").is_dir():
        arguments.error(f"no kernel is in {options.kernel}: `make .venv/kernel/.ready` unpacks that of Debian")
    for folder in ("daemon", "deploy", "tests/support"):  # the emulated host cannot keep what it compiles
        compileall.compile_dir(ROOT / folder, quiet=1)
    before = read_offset()
    with tempfile.TemporaryDirectory(prefix="ckptd-clock-") as folder:
        host = EmulatedHost(options.kernel, Path(folder))
        for line in host.run([sys.executable, str(HERE / "clock_jump_worlds.py")], ROOT):
            print(line, flush=True)
    drift = read_offset() - before
    print(f"this host's clock moved by {drift:+.3f} s against its monotonic clock")
    if abs(drift) > MAX_DRIFT:
        print("wrong: this host's clock was set")
        return 1
    if host.status is None:
        print("wrong: the emulated host ended before its command")
        return 1
    return host.status


if __name__ == "__main__":
    sys.exit(main())
