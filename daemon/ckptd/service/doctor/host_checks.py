"""Checks the host: what the kernel offers, the systemd unit, the status page, and Prometheus' account."""

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ckptd.config import Config
from ckptd.service.doctor.findings import CheckResult, error, ok, warning
from ckptd.service.doctor.kernel_features import read_kernel_features

_SYSTEMD = Path("/run/systemd/system")
_UNIT = "ckptd.service"
_PROPERTIES = ("LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "NRestarts")


def check_kernel(_config: Config) -> Iterator[CheckResult]:
    """Report Landlock and seccomp."""
    features = read_kernel_features()
    if features.landlock_abi >= 2:
        yield ok(f"{features.release} has Landlock (ABI {features.landlock_abi})")
    else:
        has = f"Landlock ABI {features.landlock_abi}, without moves" if features.landlock_abi else "no Landlock"
        yield warning(
            f"{features.release} has {has}", "use Linux 5.19 or later, with `landlock` among its security modules"
        )
    if features.has_seccomp_filter:
        yield ok("the kernel has seccomp filters")
    else:
        yield warning("the kernel has no seccomp filters", "use a kernel with CONFIG_SECCOMP_FILTER")


def check_unit(_config: Config) -> Iterator[CheckResult]:
    """Check the systemd unit, if this host runs systemd."""
    program = shutil.which("systemctl")
    if program is None or not _SYSTEMD.exists():
        yield ok("this host does not run systemd: there is no unit to check")
        return
    command = [program, "show", _UNIT, f"--property={','.join(_PROPERTIES)}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)  # noqa: S603 - constants
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if found.get("LoadState") != "loaded":
        state = found.get("LoadState") or done.stderr.strip() or "unknown"
        yield warning(f"the unit {_UNIT} is not loaded: {state}", "install deploy/systemd/ckptd.service")
        return
    state = f"the unit {_UNIT} is {found.get('ActiveState')} ({found.get('SubState')}), {found.get('UnitFileState')}"
    if found.get("ActiveState") == "failed":
        yield error(state, f"see why: journalctl -u {_UNIT} -n 50")
    elif found.get("ActiveState") != "active":
        yield warning(state, "start it: systemctl enable --now ckptd")
    else:
        yield ok(state)
    if found.get("NeedDaemonReload") == "yes":
        yield warning("the unit's file has changed since systemd read it", "systemctl daemon-reload")


def read_unit_environment() -> dict[str, str]:
    """Return the settings and the state directory that the unit gives to the daemon in its environment.

    It is empty without systemd or unit.
    """
    program = shutil.which("systemctl")
    if program is None or not _SYSTEMD.exists():
        return {}
    command = [program, "show", _UNIT, "--property=Environment", "--value"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)  # noqa: S603 - constants
        words = shlex.split(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    pairs = (word.partition("=") for word in words if word.startswith(("CKPTD_", "STATE_DIRECTORY=")))
    return {name: value for name, _, value in pairs}


def check_prometheus(config: Config) -> Iterator[CheckResult]:
    """Check that Prometheus may read what the configuration exports to operators only."""
    if not config.metrics.flagged_jobs:
        yield ok("/metrics contains only totals, which every account of this host may read")
        return
    others = [name for name in config.web.operators if name != "root"]
    if not others:
        yield warning(
            "metrics.flagged_jobs exports flags to operators only, and web.operators names nobody but root",
            "add Prometheus' account, or its name in web.config_file, to web.operators",
        )
        return
    unknown = [name for name in others if not _exists(name)]
    if unknown and config.web.config_file is None:
        yield warning(
            f"web.operators: {', '.join(unknown)} is no account of this host, and web.config_file names no users",
            "correct the names",
        )
    else:
        yield ok(f"flags are exported to the operators {', '.join(others)}")


def check_python(_config: Config) -> Iterator[CheckResult]:
    """Check that this account can read the Python that runs ckptd."""
    if os.access(os.__file__, os.R_OK) and os.access(__file__, os.R_OK):
        yield ok("this account can read ckptd and its Python")
    else:
        yield error(f"this account cannot read {os.__file__}", "install ckptd where all can read it, such as /opt")


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
