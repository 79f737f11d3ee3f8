"""How fast retention plans, on one core, beside `restic forget --dry-run` on this machine.

Prints CPU seconds and items per second for 1,000,000 files that are members of 100,000 checkpoints in 10,000 runs. The
facts are made outside of the timed part, some runs at a time, and the interpreter is set as the daemon sets it.
Run it with `python tests/bench/plan_speed.py`.
"""

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from ckptd.core import retention
from ckptd.core.model import (
    Attempt,
    Checkpoint,
    CheckpointState,
    FileIdentity,
    Grouping,
    JobKey,
    JobState,
    Level,
    RecordedCheckpoint,
    Role,
    RunKey,
    Scan,
)
from ckptd.service import gc_tuning
from support.run_builder import make_record

NOW = datetime(2026, 6, 1, tzinfo=UTC)
POLICY = retention.Policy(
    name="bench",
    rules=(
        retention.KeepLast(3),
        retention.KeepBest(1, "val_loss", "min"),
        retention.KeepEvery(10_000, "steps"),
        retention.KeepWithin(timedelta(days=1)),
        retention.KeepCalendar("daily", 7),
    ),
)


def make_run(number, count, members):
    directory = PurePosixPath(f"/scratch/user{number % 500}/run{number}")
    job = JobKey("c", number, NOW - timedelta(days=30))
    begun = NOW - timedelta(days=30)
    attempt = Attempt(job=job, restart_count=0, state=JobState.RUNNING, first_seen_at=begun, started_at=begun)
    recorded = []
    for index in range(count):
        at = NOW - timedelta(hours=6 * (count - index))
        name = f"checkpoint-{500 * (index + 1)}"
        found = Checkpoint(
            path=directory / name,
            format="huggingface",
            files=tuple(f"{name}/rank_{rank}.pt" for rank in range(members)),
            identities=tuple(
                FileIdentity(7, number * 10_000 + index * members + rank, 10_000, 1, 2) for rank in range(members)
            ),
            owner_uids=frozenset({1000 + number}),
            size_bytes=10_000 * members,
            modified_at=at,
            state=CheckpointState.COMPLETE,
            level=Level.STRUCTURE,
            step=500 * (index + 1),
            name_step=500 * (index + 1),
            metrics={"val_loss": (index * 7919 % 1000) / 1000},
            role=Role.STATE,
            grouping=Grouping(
                series="checkpoint-#", progress=(500 * (index + 1),), has_progress_word=True, is_directory=True
            ),
        )
        str(found.path)  # a path formats its text once and keeps it; reading the record has done so
        recorded.append(RecordedCheckpoint(checkpoint=found, first_seen_at=at, completed_at=at, attempt=(job, 0)))
    return make_record(
        RunKey("c", 1000 + number, str(directory)),
        attempts=(attempt,),
        checkpoints=tuple(recorded),
        polled_at=NOW,
        scan=Scan(directory=directory, scanned_at=NOW, checkpoints=tuple(record.checkpoint for record in recorded)),
    )


def measure_planner(runs, per_run, members, batch=500):
    spent = 0.0
    items = removed = 0
    for start in range(0, runs, batch):
        histories = [make_run(number, per_run, members) for number in range(start, min(runs, start + batch))]
        before = time.process_time()
        made = retention.plan(((history, POLICY) for history in histories), NOW)
        spent += time.process_time() - before
        items += sum(len(run.decisions) for run in made.runs)
        removed += made.remove_count
    return spent, items, removed


def measure_restic(doublings):
    """Return CPU seconds of `restic forget --dry-run`, of only opening the repository, and the snapshots in it."""
    if shutil.which("restic") is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        environment = {
            **os.environ,
            "RESTIC_PASSWORD": "bench",
            "RESTIC_CACHE_DIR": f"{place}/cache",
            "GOMAXPROCS": "1",
        }

        def restic(repository, *arguments):
            command = ["restic", "--repo", f"{place}/{repository}", *arguments]
            return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

        secret = Path(place, "secret")
        secret.write_text("bench")
        Path(place, "data").mkdir()
        Path(place, "data", "file").write_text("x")
        for repository in ("a", "b"):
            restic(repository, "init")
        for day in range(1, 5):
            restic("a", "backup", "--host", "h", "--time", f"2026-01-0{day} 00:00:00", f"{place}/data")
        for turn in range(doublings):  # copying back and forth with new tags doubles the snapshots each time
            for source, target in (("a", "b"), ("b", "a")):
                restic(target, "copy", "--from-repo", f"{place}/{source}", "--from-password-file", str(secret))
                restic(target, "tag", "--add", f"{turn}{source}")
        count = restic("a", "snapshots", "--json").count('"short_id"')
        keep = ("--keep-last", "3", "--keep-within", "1d", "--keep-daily", "7", "--group-by", "host")
        opening = _seconds(lambda: restic("a", "cat", "config"))
        whole = _seconds(lambda: restic("a", "forget", "--dry-run", *keep))
        return whole, opening, count


def _seconds(act):
    """Return the least CPU seconds that nine tries took in the processes they started."""
    spent = []
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        act()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--checkpoints", type=int, default=10, help="of each run")
    parser.add_argument("--members", type=int, default=10, help="files of each checkpoint")
    parser.add_argument("--doublings", type=int, default=6, help="of restic's snapshots; 0 leaves restic out")
    options = parser.parse_args()
    gc_tuning.avoid_long_pauses()
    spent, items, removed = measure_planner(options.runs, options.checkpoints, options.members)
    files = items * options.members
    print(f"plan: {files} files of {items} checkpoints in {options.runs} runs: {spent:.2f} s on one core,")
    print(f"      {items / spent:,.0f} checkpoints/s, {files / spent:,.0f} files/s")
    print(f"      {removed} of them may go")
    peer = measure_restic(options.doublings) if options.doublings else None
    if peer is None:
        print("restic: left out, or not installed")
        return
    whole, opening, count = peer
    print(f"restic forget --dry-run: {count} snapshots: {whole:.3f} s, {count / whole:,.0f} items/s;")
    if whole - opening < 0.1 * opening:
        print(f"      opening the repository takes {opening:.3f} s of it: too few snapshots to tell the rest")
    else:
        print(f"      {count / (whole - opening):,.0f} items/s without the {opening:.3f} s that open the repository")


if __name__ == "__main__":
    main()
