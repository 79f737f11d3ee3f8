"""Feed damaged copies of the real files to every reader, and count what came of it.

    python tests/fuzz/run.py [--inputs 200000] [--seed N] [--keep DIRECTORY]

Each input is a real checkpoint of tests/data/formats with one of its files damaged, inspected as `ckptd inspect`
does. It ends with 1 where a reader failed otherwise than by saying what is wrong, was killed or ran into its limits,
where a descriptor leaked, or where a file appeared. Such inputs are kept: make tests of them.
"""

import argparse
import collections
import json
import os
import random as randoms
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "daemon")]

import mutations  # noqa: E402

from ckptd.checkpoints.agent.agent_operations import preload  # noqa: E402
from ckptd.checkpoints.agent.limited_child import ChildLimits  # noqa: E402
from ckptd.checkpoints.scanning.inspection import inspect_tree  # noqa: E402
from ckptd.core.model import Level  # noqa: E402

DATA = HERE.parent / "data" / "formats"
BATCH = 200
LIMITS = ChildLimits(memory_bytes=1 << 30, seconds=10)
BAD = (
    "its reader failed",
    "its reader was ended",
    "its reader ended",
    "did not finish",
    "processor time",
    "answer is garbled",
)


class Originals:
    """The real checkpoints, by format: each a directory of files to copy."""

    def __init__(self):
        self.by_format = collections.defaultdict(list)
        self.pieces = collections.defaultdict(list)
        for truth in sorted(DATA.glob("*/truth.json")):
            for entry in json.loads(truth.read_text()):
                files = self._files(truth.parent, entry["path"])
                if files:
                    self.by_format[entry["format"]].append(files)
                    self.pieces[entry["format"]].extend(files.values())

    @staticmethod
    def _files(root, path):
        place = (root / path).parent
        found = (
            [file for file in place.glob("**/*") if file.is_file()]
            if (root / path).is_dir()
            else [
                file
                for file in place.iterdir()
                if file.is_file() and file.name.startswith(Path(path).name.partition("-0")[0])
            ]
        )
        files = {str(file.relative_to(place)): file.read_bytes() for file in found if file.name != "truth.json"}
        return files if sum(map(len, files.values())) < 1 << 20 else {}


def write_input(random, originals, format_name, directory):
    files = dict(random.choice(originals.by_format[format_name]))
    victim = random.choice(sorted(files))
    files[victim] = mutations.mutate(random, files[victim], originals.pieces[format_name])
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def list_everything(root):
    return sorted((entry.path, entry.stat(follow_symlinks=False).st_size) for entry in _walk(root))


def _walk(root):
    with os.scandir(root) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path)


def run_batch(random, originals, room, tally):
    """Inspect one batch; return the trouble with it as (format, what, directory)."""
    names = random.choices(sorted(originals.by_format), k=BATCH)
    for number, format_name in enumerate(names):
        write_input(random, originals, format_name, room / f"{number:04d}")
    before, descriptors = list_everything(room), os.listdir("/proc/self/fd")
    level = random.choice((Level.STRUCTURE, Level.FULL))
    found = inspect_tree(room, now=datetime.now(UTC) + timedelta(hours=1), level=level, limits=LIMITS)
    trouble = [("-", f"problem: {problem.reason}", room / problem.what) for problem in found.problems]
    for checkpoint in found.checkpoints:
        tally[checkpoint.format, checkpoint.state.value] += 1
        if any(sign in (checkpoint.reason or "") for sign in BAD):
            trouble.append((checkpoint.format, checkpoint.reason, room / checkpoint.path.relative_to(room).parts[0]))
    if list_everything(room) != before:
        trouble.append(("-", "a file appeared or changed", room))
    if os.listdir("/proc/self/fd") != descriptors:
        trouble.append(("-", "a descriptor leaked", room))
    for format_name in names:
        tally[format_name, "inputs"] += 1
    return trouble


def keep(trouble, directory, count):
    for format_name, what, source in trouble:
        target = directory / f"{count:06d}-{format_name}-{source.name}"
        if source.is_dir() and not target.exists():
            shutil.copytree(source, target)
        print(f"  {format_name}: {what[:300]}\n    kept in {target}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--inputs", type=int, default=200_000)
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "ckptd-fuzz")
    options = arguments.parse_args()
    preload()
    random, originals, tally = randoms.Random(options.seed), Originals(), collections.Counter()
    print(f"seed {options.seed}, {len(originals.by_format)} formats", flush=True)
    done, findings, began = 0, 0, time.monotonic()
    while done < options.inputs:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as room:
            trouble = run_batch(random, originals, Path(room), tally)
            keep(trouble, options.keep, done)
        done, findings = done + BATCH, findings + len(trouble)
        if done % 20_000 == 0:
            print(f"{done} inputs, {findings} findings, {time.monotonic() - began:.0f} s", flush=True)
    for format_name in sorted(originals.by_format):
        states = {state: tally[format_name, state] for state in ("inputs", "complete", "damaged", "unknown", "writing")}
        print(f"{format_name:20} " + "  ".join(f"{state} {count}" for state, count in states.items()))
    print(f"{done} inputs, {findings} findings, {time.monotonic() - began:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
