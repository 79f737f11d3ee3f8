"""How fast checkpoints are inspected, each number beside that of a program that does as little or less.

    python tests/bench/inspect_speed.py [--size 4G] [--files 100000] [--directories 1000]
        [--torch-python PYTHON] [--room DIRECTORY]

Structure and epoch of a torch file beside `torch.load` of it, if `make test-programs` has installed torch or a Python
with torch is named; full verification beside `cat` and `python -m zipfile -t` from warm cache; and a directory of many
checkpoints, and many directories of 100, as the agent scans them, for the first time and unchanged, beside `find
-printf`. Needs room for the file on a disk or in memory.
"""

import argparse
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from zlib_ng import zlib_ng

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / place) for place in ("daemon", "deploy", "tests")]

from ckptd.checkpoints.agent.scan_client import JobPlaces, ScanLimits, request_scans, rescan_runs
from ckptd.checkpoints.scanning.claiming import claim_tree
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.recognition import assemble, examine_claim
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core.model import CheckpointState, Level, RunKey, Unknown
from ckptd.core.model.records import SettledScan
from ckptd.service.agent_start import start_agent
from ckptd.steps.scan_groups import MAX_DIRECTORIES
from support.process_use import read_tree_seconds
from support.sized_world import make_checkpoint

PROGRAMS_PYTHON = ROOT / ".venv/programs/bin/python"  # which `make test-programs` installs
UID = 61_000_000 if os.geteuid() == 0 else os.geteuid()
LIMITS = ScanLimits(deadline=timedelta(minutes=10))
STORAGE = 64 << 20
EOCD = "<4s4H2LH"


def best_of(count, action):
    """Return the shortest time in seconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def write_torch_file(path, size):
    """Write what torch.save would for float tensors of 64 MiB, without torch: stored, 64-byte aligned, zip64."""
    count = max(1, size // STORAGE)
    data = b"\0\0\x80\x3f" * (STORAGE // 4)
    crc = zlib_ng.crc32(data)
    entries = [("data.pkl", _state(count)), ("byteorder", b"little"), ("version", b"3\n")]
    directory = b""
    with path.open("wb", buffering=1 << 20) as file:
        for name, content in [*entries, *((f"data/{key}", None) for key in range(count))]:
            full = f"bench/{name}".encode()
            content_size, content_crc = (len(content), zlib.crc32(content)) if content is not None else (STORAGE, crc)
            at = file.tell()
            padding = -(at + 34 + len(full)) % 64
            extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
            file.write(
                struct.pack(
                    "<4s5H3L2H",
                    b"PK\3\4",
                    0,
                    0,
                    0,
                    0,
                    0,
                    content_crc,
                    content_size,
                    content_size,
                    len(full),
                    len(extra),
                )
            )
            file.write(full + extra)
            file.write(content if content is not None else data)
            wide = struct.pack("<2HQ", 1, 8, at)
            directory += struct.pack(
                "<4s6H3L5H2L",
                b"PK\1\2",
                0,
                0,
                0,
                0,
                0,
                0,
                content_crc,
                content_size,
                content_size,
                len(full),
                len(wide),
                0,
                0,
                0,
                0,
                0xFFFFFFFF,
            )
            directory += full + wide
        start = file.tell()
        total = len(entries) + count
        file.write(directory)
        end = file.tell()
        file.write(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, total, total, len(directory), start))
        file.write(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        file.write(struct.pack(EOCD, b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


def _state(count):
    """Write by hand the opcodes of {"epoch": 41, "model": {...}} with one tensor for each storage."""
    parts = [b"\x80\x02}(X\5\0\0\0epochK\x29X\5\0\0\0model}("]
    elements = STORAGE // 4
    for key in range(count):
        name, text = f"layer{key}".encode(), str(key).encode()
        parts.append(b"X" + struct.pack("<I", len(name)) + name)
        parts.append(b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n")
        parts.append(
            b"X" + struct.pack("<I", len(text)) + text + b"X\3\0\0\0cpuJ" + struct.pack("<i", elements) + b"tQ"
        )
        parts.append(b"K\0J" + struct.pack("<i", elements) + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR")
    return b"".join(parts) + b"uu."


def bytes_read(action):
    before = int(Path("/proc/self/io").read_text().split()[1])
    action()
    return int(Path("/proc/self/io").read_text().split()[1]) - before


def examine(path, level):
    """Examine in this process, so that what it reads can be counted."""
    now = datetime.now(UTC) + timedelta(hours=1)
    with Reader(path.parent) as reader:
        claims, _ = claim_tree(list_tree(path.parent, entry=path.name), reader)
        examinations = [examine_claim(claim, reader, level) for claim in claims]
        (found,) = assemble(claims, examinations, root=path.parent, level=level, now=now)
    assert (found.state, found.epoch) == (CheckpointState.COMPLETE, 41), found
    return found


def measure_torch(room, size, torch_python):
    path = room / "one" / "bench_epoch_41.pt"
    path.parent.mkdir()
    write_torch_file(path, size)
    subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)  # warm the cache
    structure = best_of(20, lambda: examine(path, Level.STRUCTURE))
    print(f"torch file of {path.stat().st_size / 2**30:.2f} GiB")
    read = bytes_read(lambda: examine(path, Level.STRUCTURE))
    print(f"  structure and epoch  {structure * 1e3:10.2f} ms, {read / 2**20:.3f} MiB read")
    if torch_python:
        program = "import sys,time,torch; b=time.perf_counter(); torch.load(sys.argv[1]); print(time.perf_counter()-b)"
        times = [float(subprocess.check_output([torch_python, "-c", program, path])) for _ in range(3)]
        print(f"  torch.load           {min(times) * 1e3:10.2f} ms   ratio {min(times) / structure:.0f}")
    full = best_of(3, lambda: examine(path, Level.FULL))
    child = best_of(3, lambda: inspect_tree(path.parent, entry=path.name, now=datetime.now(UTC), level=Level.FULL))
    cat = best_of(3, lambda: subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True))
    speed = path.stat().st_size / full / 1e9
    print(f"  full                 {full:10.2f} s    {speed:.2f} GB/s (in its child {child:.2f} s)")
    print(f"  cat                  {cat:10.2f} s    full at {cat / full:.2f} of its speed")
    command = [sys.executable, "-m", "zipfile", "-t", path]
    zipfile = best_of(1, lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    print(f"  python -m zipfile -t {zipfile:10.2f} s    full is {zipfile / full:.1f} times as fast")


def measure_directories(room, count, file_count):
    """Let an agent scan directories of one owner; the CPU is that of the agent and all its children."""
    directories = [make_directory(room / f"of{file_count}" / f"{number}", file_count) for number in range(count)]
    config = room / "config.toml"
    config.write_text('[scan]\ndeadline = "10m"\n')
    keys = [RunKey("bench", UID, str(directory)) for directory in directories]
    places = JobPlaces(work_dirs={key: [key.directory] for key in keys})
    now = datetime.now(UTC) + timedelta(hours=1)
    print(f"directories of {file_count} checkpoint files each: {count}")
    argv = ["find", room / f"of{file_count}", "-printf", "%p %s %T@ %C@ %i %U\n"]
    find = min(
        measure("find -printf", lambda: subprocess.run(argv, stdout=subprocess.DEVNULL, check=True), read_children)[0]
        for _ in range(3)
    )
    agent = start_agent(config, is_person=True)
    try:
        agent.wait_until_ready()
        scan_first = partial(scan_in_groups, agent, keys, now, places)
        read_agent = partial(read_tree_seconds, agent._process.pid)
        _, found = measure("first scan", scan_first, read_agent, find)
        for each in found:
            if isinstance(each, Unknown):
                raise SystemExit(f"a directory could not be scanned: {each.reason}")
            assert len(each.checkpoints) == file_count
        settled = [(key, SettledScan(each.fingerprint, 1), each) for key, each in zip(keys, found, strict=True)]
        for _ in range(3):
            rescan = partial(rescan_runs, agent, settled, LIMITS, now, places)
            _, same = measure("nothing changed", rescan, read_agent, find)
            assert [each.fingerprint for each in same] == [each.fingerprint for each in found]
    finally:
        agent.close()


def make_directory(path, file_count):
    path.mkdir(parents=True)
    for number in range(file_count):
        (path / f"step_{number}.safetensors").write_bytes(make_checkpoint(number))
    for each in (path, *path.iterdir()):
        os.chown(each, UID, -1)
    return path


def scan_in_groups(agent, keys, now, places):
    """Scan as the daemon does for the first time: so many directories in a request as one parser reads."""
    found = []
    for start in range(0, len(keys), MAX_DIRECTORIES):
        runs = [(key, (), None) for key in keys[start : start + MAX_DIRECTORIES]]
        found += [each.decode() for each in request_scans(agent, runs, LIMITS, now, places, shares_parser=True)]
    return found


def measure(what, action, read_seconds, find=None):
    """Print the time and the CPU that an action takes, also in this process; return the CPU and what it returns."""
    before, own, began = read_seconds(), time.process_time(), time.perf_counter()
    result = action()
    took, used = time.perf_counter() - began, read_seconds() - before
    ratio = f", {used / find:.2f} times that of find" if find else ""
    print(f"  {what:<20} {took:10.2f} s, CPU {used:.2f} s{ratio}; this process {time.process_time() - own:.2f} s")
    return used, result


def read_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--size", default="4G", help="of the torch file, such as 4G or 64M")
    arguments.add_argument("--files", type=int, default=100_000, help="in the directory")
    arguments.add_argument("--directories", type=int, default=1000, help="of 100 files each")
    arguments.add_argument("--torch-python", type=Path, default=PROGRAMS_PYTHON if PROGRAMS_PYTHON.exists() else None)
    arguments.add_argument("--room", type=Path, default=Path(tempfile.gettempdir()))
    options = arguments.parse_args()
    size = int(options.size.rstrip("GM")) << {"G": 30, "M": 20}.get(options.size[-1], 0)
    with tempfile.TemporaryDirectory(dir=options.room) as room:
        Path(room).chmod(0o755)
        measure_torch(Path(room), size, options.torch_python)
        measure_directories(Path(room), 1, options.files)
        measure_directories(Path(room), options.directories, 100)


if __name__ == "__main__":
    main()
