"""A Python for job users: the project's own may live where they cannot read it, for instance below /root."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from demo.errors import DemoError

PACKAGES = ("numpy", "numpy.libs", "safetensors")


def install_job_python(directory: Path) -> Path:
    """Make a small virtual environment with numpy and safetensors that every user can run; return its python.

    Raises:
        DemoError: no python of this version is readable by everyone, or the packages are not installed here.

    """
    base = find_readable_python()
    subprocess.run([base, "-m", "venv", "--without-pip", directory], check=True, capture_output=True)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = directory / "lib" / f"python{_version()}" / "site-packages"
    for package in PACKAGES:
        if not (ours / package).is_dir():
            raise DemoError(f"{package} is not installed beside {sys.executable}: run `make venv` first.")
        shutil.copytree(ours / package, theirs / package, copy_function=_link_or_copy)
    return directory / "bin/python"


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def find_readable_python() -> str:
    """Return a Python of this version that every user can run.

    Raises:
        DemoError: there is none.

    """
    candidates = (str(Path(sys.base_exec_prefix, f"bin/python{_version()}")), f"/usr/bin/python{_version()}")
    for candidate in candidates:
        # setpriv itself loses root's right to pass closed directories only by the exec: hence one more of them.
        as_anyone = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "env",
            candidate,
            "-c",
            "import ssl",
        ]
        if subprocess.run(as_anyone, capture_output=True, cwd="/", check=False).returncode == 0:
            return candidate
    raise DemoError(
        f"job users cannot run {candidates[0]}: put Python {_version()} where every user can read it, "
        "or make the virtual environment with /usr/bin/python3."
    )


def _link_or_copy(source: str, target: str) -> None:
    """Link where source and target share a file system: nothing is copied, and nothing is changed."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
