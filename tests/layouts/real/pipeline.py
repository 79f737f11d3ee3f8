"""Looks at a directory after each save, records what changed, and plans: as the daemon does, without its processes."""

from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from ckptd.checkpoints.scanning import claiming, recognition
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core import checkpoint_sets, retention
from ckptd.core.model import Attempt, Job, JobKey, JobState, Level, RunKey, Scan
from ckptd.core.runs import progress
from ckptd.core.runs.ownership import Writers
from support.closed_files import assemble
from support.run_builder import make_record

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
BETWEEN_SAVES = timedelta(hours=2)
UNTIL_SEEN = timedelta(minutes=5)
POLICY = retention.Policy(name="last", rules=(retention.KeepLast(1),), mode=retention.PolicyMode.ENFORCE)
JOB = JobKey("c", 1, START)


def saved_at(number):
    return START + (number + 1) * BETWEEN_SAVES


class Watch:
    """One run of one user, whose directory is looked at after each save."""

    def __init__(self, root, uid, *, is_forking=False):
        self.root = root
        self.uid = uid
        self.records = []
        self.attempt = Attempt(job=JOB, restart_count=0, state=JobState.RUNNING, first_seen_at=START, started_at=START)
        self._list = _inspect if is_forking else _look
        self._observed_at = None
        self.look(START)

    def look(self, now):
        """Look once and record what changed."""
        checkpoints, problems, markers = self._list(self.root, now)
        self.scan = Scan(
            directory=PurePosixPath(self.root),
            scanned_at=now,
            checkpoints=checkpoints,
            problems=problems,
            markers=markers,
        )
        writers = Writers(owner_uid=self.uid, attempts=(self.attempt,), observed_at=self._observed_at)
        self._record(progress.merge_scan(self.records, self.scan, writers, now))
        self._observed_at = now

    def _record(self, changes):
        said = {(record.checkpoint.path, record.first_seen_at): record for record in self.records}
        for record in (*changes.gone, *changes.changed, *changes.appeared):
            said[record.checkpoint.path, record.first_seen_at] = record
        self.records = list(said.values())

    def plan(self, now, policy=POLICY):
        """Decide about every checkpoint that is there."""
        left = timedelta(days=1)
        job = Job(
            cluster="c",
            job_id=1,
            user="alice",
            uid=self.uid,
            state=JobState.RUNNING,
            time_left=left,
            ends_at=now + left,
        )
        history = make_record(
            RunKey("c", self.uid, str(self.root)),
            jobs=(job,),
            attempts=(self.attempt,),
            checkpoints=tuple(self.records),
            polled_at=now,
            scan=self.scan,
        )
        return retention.plan_run(history, policy, now)


def _look(root, now):
    """Do in this process what `inspect_tree` does in children."""
    root = PurePosixPath(root)
    tree = list_tree(root)
    with Reader(root) as reader:
        claims, left = claiming.claim_tree(tree, reader)
        examinations = [recognition.examine_claim(claim, reader, Level.STRUCTURE) for claim in claims]
    pieces = assemble(claims, examinations, root=root, level=Level.STRUCTURE, now=now)
    others = [checkpoint_sets.OtherFile(file.path, file.identity, file.uid) for file in left]
    unchanged_since_ns = int((now - recognition.WRITE_GRACE).timestamp() * 1e9)
    found = checkpoint_sets.group(pieces, others, root=root, unchanged_since_ns=unchanged_since_ns)
    return found, tuple(tree.walk_problems()), tuple({file.path for claim in claims for file in claim.markers})


def _inspect(root, now):
    found = inspect_tree(PurePosixPath(root), now=now)
    return found.checkpoints, found.problems, found.markers
