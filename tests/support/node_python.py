"""A Python with this checkout of ckptd that every user can run, as an installation that the nodes of a cluster see."""

import atexit
import functools
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import ckptd
from demo import job_python


@functools.cache
def install_node_python():
    """Make a virtual environment, once for this process, that finds ckptd and its libraries here; return its python."""
    directory = Path(tempfile.mkdtemp(prefix="ckptd-python-"))
    atexit.register(shutil.rmtree, directory)
    directory.chmod(0o755)
    base = job_python.find_readable_python()
    subprocess.run([base, "-m", "venv", "--without-pip", directory], check=True, capture_output=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    places = (Path(ckptd.__file__).parent.parent, sysconfig.get_path("purelib"))
    (packages / "ckptd.pth").write_text("".join(f"{place}\n" for place in places))
    return directory / "bin/python"
