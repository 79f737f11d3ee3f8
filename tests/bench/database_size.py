"""Bytes of a database for each job, run and checkpoint: run `python tests/bench/database_size.py [POSTGRESQL-URL]`.

Records ended jobs of one attempt and one loss each, runs, and checkpoints of one file and of eight, with paths of the
usual length, and prints what each adds to the size after VACUUM. The PostgreSQL database must be empty.
"""

import itertools
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parent.parent))

import sqlalchemy as sa

from ckptd.core.model import FileIdentity, JobState, RunKey
from ckptd.core.model.records import LocationRecord, ScanRecord
from ckptd.core.runs import ownership, progress
from ckptd.service import database_copies
from ckptd.store.store import Store
from support import recorded
from support.queue_facts import CLUSTER, EndedAttempt, at, make_checkpoint, make_job, make_scan

COUNT = 10_000
INODE = 6_195_174
WRITTEN = round(at(0).timestamp() * 1000)  # the files of a checkpoint are written one after the other
DIRECTORY = "/scratch/project-0123456789/alice/experiments/resnet-50-imagenet/run-{}/checkpoints"


def read_size(url):
    """Return the bytes of a database without free pages."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("VACUUM FULL" if engine.dialect.name == "postgresql" else "VACUUM")
        if engine.dialect.name == "postgresql":
            size = connection.scalar(sa.text("SELECT pg_database_size(current_database())"))
        else:
            size = connection.scalar(sa.text("PRAGMA page_count")) * connection.scalar(sa.text("PRAGMA page_size"))
    engine.dispose()
    return size


def record_jobs(store, first, run_of):
    """Record jobs that started, were assigned to their runs and ended."""
    jobs = [
        make_job(number, name="resnet-50-imagenet", comment="", work_dir=f"/scratch/project/alice/experiments/{number}")
        for number in range(first, first + COUNT)
    ]
    recorded.poll(store, 0, *jobs)
    keys = store.jobs.read_tracked(CLUSTER)
    found = [
        LocationRecord(
            jobs=tuple(keys[job.job_id].key for job in members),
            run=run,
            user="alice",
            located_by="comment",
            settings_directory="/w",
        )
        for run, members in itertools.groupby(jobs, lambda job: run_of(job.job_id))
    ]
    store.located_runs.record(found, at(1))
    ended = [
        EndedAttempt(job.job_id, None, at(0), at(60), JobState.COMPLETED, "node[001-004]", 4, 256, 16) for job in jobs
    ]
    recorded.poll(store, 61, accounting=ended)


def record_checkpoints(store, run, numbers, file_count):
    directory = PurePosixPath(run.directory)
    found = [
        make_checkpoint(
            f"checkpoint-{number}",
            path=directory / f"checkpoint-{number}",
            files=tuple(f"checkpoint-{number}/shard-{each:05}-of-{file_count:05}.pt" for each in range(file_count)),
            identities=tuple(
                FileIdentity(65024, INODE + number * 100 + each, 2**30, (WRITTEN - each) * 10**6, WRITTEN * 10**6)
                for each in range(file_count)
            ),
            size_bytes=file_count * 2**30,
            modified_at=datetime.fromtimestamp(WRITTEN / 1000, UTC),
            step=number,
        )
        for number in numbers
    ]
    scan = make_scan(0, *found, directory=directory)
    changes = progress.merge_scan((), scan, ownership.Writers(owner_uid=1000), at(0) + timedelta(minutes=1))
    store.checkpoints.record_scans([ScanRecord(run=run, changes=changes, scan=scan)])


def make_run(number):
    return RunKey(CLUSTER, 1000, DIRECTORY.format(number))


def main():
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/record.db"
        store = Store.open(url, upgrade=True)
        sizes = [read_size(url)]

        def show(what, count):
            store.close()
            sizes.append(read_size(url))
            print(f"{what:<44} {(sizes[-1] - sizes[-2]) / count:8.0f} bytes each")

        print(f"{'empty database':<44} {sizes[0]:8} bytes")
        record_jobs(store, 1, lambda _number: make_run(0))
        show("ended job of a run that exists", COUNT)
        record_jobs(store, COUNT + 1, make_run)
        show("ended job with a run of its own", COUNT)
        for number in range(COUNT + 1, COUNT + 101):
            record_checkpoints(store, make_run(number), range(100), 1)
        show("checkpoint of one file", 100 * 100)
        for number in range(COUNT + 201, COUNT + 301):
            record_checkpoints(store, make_run(number), range(20), 8)
        show("checkpoint of eight files", 100 * 20)
        began = time.monotonic()
        database_copies.back_up(url, Path(folder, "saved"))
        size = Path(folder, "saved").stat().st_size
        print(f"backup: {size / 1e6:.0f} MB in {time.monotonic() - began:.1f} s")
        if store.database.sqlite_path:
            return
        began = time.monotonic()
        database_copies.copy(url, f"sqlite:///{folder}/copied", is_online=True)
        print(f"copy to SQLite: {time.monotonic() - began:.1f} s")


main()
