"""Trainings of many frameworks over days, and what their users do to the files by hand: the truth of users_play.py.

The files are those that each framework names and lays out, with contents that tell their progress. A training is cut
off in the middle of a save, requeued, continued by the next job, resumed from an older save, or started over. Its user
renames, moves, copies, links and deletes saves, takes them away for hours, and copies them back from the trash.
"""

import itertools
import os
import shutil
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path, PurePosixPath

from ckptd.core.model import Job, JobState
from fuzz.chaos_world import Execution, Training, World
from layouts.frameworks import FRAMEWORKS, Framework
from layouts.real import simulation
from layouts.real.layout import Save as RealSave
from layouts.trainings import Moment
from support.prune_facts import CLUSTER, UID, own
from support.tensorflow_table import make_set

SIMULATIONS = {
    "GROMACS, numbered": Framework(
        lambda at, _: {f"state_step{at.step}.cpt": simulation.CPT(RealSave(s=at.step))}, needs_times=True
    ),
    "GROMACS": Framework(lambda at, _: {"state.cpt": simulation.CPT(RealSave(s=at.step))}, is_fixed=True),
    "LAMMPS": Framework(lambda at, _: {f"melt.{at.step}.restart": simulation.RESTART(RealSave(s=at.step))}),
    "TensorFlow": Framework(
        lambda at, workers: make_set(at.step, workers + 1),
        has_word=False,
        is_sharded=True,
        markers=lambda at: {"checkpoint": f'model_checkpoint_path: "ckpt-{at.step}"\n'.encode()},
    ),
}
CONVENTIONS = FRAMEWORKS | SIMULATIONS
RENAMED, MOVED_ASIDE = "renamed", "moved"
HARD_LINK = "a file of it has a second name elsewhere"
MOVED = {RENAMED, MOVED_ASIDE}
NOTES = "notes.txt"


@dataclass(eq=False)
class Kept:
    """One save as it was written. `kept_by` says what a person did to it; `gone_by` who took it away."""

    training: "PlayedTraining"
    execution: Execution
    epoch: int
    step: int
    begun_at: int
    files: dict[Path, bytes]
    ended_at: int | None = None  # None: it was cut off, or is being written
    kept_by: str | None = None
    gone_by: str | None = None
    is_away: bool = False  # its user has taken it out of the directory for a while
    left_at: int = 0  # the minute when it was last taken away
    original: "Kept | None" = None  # of a copy
    is_from_trash: bool = False

    @property
    def is_complete(self):
        return self.ended_at is not None

    @property
    def is_there(self):
        return self.gone_by is None and not self.is_away

    @property
    def name(self):
        return f"{self.training.directory.name} epoch {self.epoch} step {self.step} of minute {self.begun_at}"


@dataclass(kw_only=True)
class PlayedTraining(Training):
    """A training by a convention."""

    convention: str
    workers: int
    stride: int
    rotates_to: int | None
    goes_back: bool  # some attempts resume from an older save, or start over
    saves: list[Kept] = field(default_factory=list)
    remembered: list[Kept] = field(default_factory=list)  # by its rotation
    writing: tuple[Kept, list[Path]] | None = None  # a save that takes until the next minute
    resumed: Kept | None = None  # what its running attempt has loaded
    step: int = 0
    epoch_count: int = 0

    @property
    def framework(self):
        return CONVENTIONS[self.convention]

    def list_complete(self):
        """Return the complete saves that are there, in the order of writing."""
        found = [each for each in self.saves if each.is_there and each.is_complete]
        return sorted(found, key=lambda each: (each.ended_at, each.begun_at))


class PlayedWorld(World):
    """All trainings of a play, and what lies beside them."""

    def __init__(self, root, begin, seed, count=5):
        (root / "home").mkdir()
        super().__init__(root, begin, seed, 0)
        self.data = set()  # files that are nobody's save
        self.named = {}  # saves by the waiting jobs that name them
        self.links = {}  # saves by the links to them
        self.copies = []  # saves that a person copied
        self.journal = []
        self._written_count = 0  # in this minute
        for number in range(count):
            directory = root / f"home/run{number}"
            directory.mkdir(parents=True)
            own(directory)
            interval = seed.choice([12, 20, 35])
            self.trainings.append(
                PlayedTraining(
                    number=number,
                    directory=directory,
                    interval=interval,
                    limit=seed.randint(120, 420),
                    convention=seed.choice(list(CONVENTIONS)),
                    workers=seed.choice([1, 2, 3]),
                    stride=seed.choice([1, 50, 100, 1000]),
                    rotates_to=seed.choice([None, None, None, 3, 5]),
                    goes_back=seed.random() < 0.5,
                )
            )
        own(root / "home")

    def note(self, text):
        self.journal.append(f"minute {self.minute}: {text}")

    def _start(self, training):
        super()._start(training)
        if training.running is None:
            return
        complete = training.list_complete()
        dice = self.seed.random() if training.goes_back else 1.0
        training.resumed = complete[-1] if complete else None
        if complete and dice < 0.15:
            training.resumed = self.seed.choice(complete)
        elif dice < 0.2:
            training.resumed = None
        resumed = training.resumed
        training.step, training.epoch_count = (resumed.step, resumed.epoch) if resumed else (0, 0)
        training.remembered = list(complete)
        self.note(f"{training.directory.name} starts from {resumed.name if resumed else 'nothing'}")

    def _end(self, training):
        super()._end(training)
        if training.writing:
            self._cut(training)
        training.resumed = None
        self.note(f"{training.directory.name} ends, {training.fate}")

    def _cut(self, training):
        """Leave the save that is being written as a kill leaves it: its last file cut short, the rest missing."""
        save, left = training.writing
        training.writing = None
        written = [path for path in save.files if path not in left]
        os.truncate(written[-1], max(1, written[-1].stat().st_size // 2))
        save.files = {path: data for path, data in save.files.items() if path.exists()}  # some may be of an older save
        self.note(f"{save.name} is cut off")

    def advance(self):
        self.minute += 1
        self._written_count = 0
        for each in self.trainings:
            if each.writing:
                self._finish(each)
        self.minute -= 1
        super().advance()

    def _save(self, training):
        training.next_save = self.minute + training.interval
        training.step += training.stride
        training.epoch_count += 1
        moment = Moment(training.epoch_count, training.step, 0.0)
        content = training.framework.save(moment, training.workers if training.framework.is_sharded else 1)
        content = {training.directory / path: data for path, data in content.items()}
        for before in (*training.saves, *self.copies):
            if before.gone_by is None and not content.keys().isdisjoint(before.files):
                before.gone_by, before.is_away = "overwritten", False
        save = Kept(training, training.running, training.epoch_count, training.step, self.minute, content)
        training.saves.append(save)
        folders = {path.parent for path in content}
        notes = {path for path in self.data if path.name == NOTES and path.parent in folders}
        self.data -= notes  # they are older than what is in their directory now, and so they are of it
        save.files = {**dict.fromkeys(notes, b""), **content}
        paths = list(content)
        split = self.seed.randint(1, len(paths)) if self.seed.random() < 0.5 else len(paths)
        for path in paths[:split]:
            self._write(path, content[path])
        training.writing = save, paths[split:]
        if split == len(paths):
            self._finish(training)

    def _finish(self, training):
        save, left = training.writing
        training.writing = None
        for path in left:
            self._write(path, save.files[path])
        save.ended_at = self.minute
        for name, data in training.framework.markers(Moment(save.epoch, save.step, 0.0)).items():
            self._write(training.directory / name, data)
        training.remembered.append(save)
        while training.rotates_to and len(training.remembered) > training.rotates_to:
            oldest = training.remembered.pop(0)
            if oldest.kept_by not in MOVED:  # its program does not find it any more
                self.remove(oldest, "rotated")

    def _write(self, path, data):
        make_parents(path)
        path.write_bytes(data)
        own(path)
        self._written_count += 1
        at = self.at(self.minute).timestamp() + 0.1 * min(self._written_count, 500)
        os.utime(path, (at, at))

    def remove(self, save, by):
        """Delete a save as its program or its user does, wherever it is."""
        if save.gone_by is not None or save.is_away:
            return
        for path in save.files:
            path.unlink(missing_ok=True)
        save.gone_by = by
        self.note(f"{save.name} is {by}")

    def list_away(self):
        return [each for training in self.trainings for each in training.saves if each.is_away]

    def list_jobs(self):
        yield from super().list_jobs()
        yield from self.named

    def name(self, save):
        """Submit a job that waits and names a save by an exact path; return it."""
        job_id, self._next_job = self._next_job, self._next_job + 1
        path = self.seed.choice(list_roots(save, self.list_others(save)))
        job = Job(
            cluster=CLUSTER,
            job_id=job_id,
            user="alice",
            uid=UID,
            name="evaluate",
            state=JobState.PENDING,
            submitted_at=self.at(self.minute),
            time_limit=timedelta(hours=1),
            time_left=timedelta(hours=1),
            work_dir=PurePosixPath(self.root / "home"),
            command=f"/home/alice/evaluate.sh --from {path}",
        )
        self.named[job] = save
        self.note(f"job {job.job_id} names {path} of {save.name}")
        return job

    def list_others(self, save):
        """Return every path that is not of this save: no rename of its directories may take one along."""
        own_files = set(save.files)
        saves = itertools.chain.from_iterable(each.saves for each in self.trainings)
        present = [each for each in (*saves, *self.copies) if each.gone_by is None]
        found = [path for each in present for path in each.files if path not in own_files]
        return [*found, *self.data, *(save.training.directory / name for name in self._list_markers(save))]

    @staticmethod
    def _list_markers(save):
        return save.training.framework.markers(Moment(save.epoch, save.step, 0.0))


def make_parents(path):
    """Make the directories above a file, as its owner."""
    missing = [each for each in path.parents if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        own(each)


def list_roots(save, others):
    """Return the files and directories that hold this save and nothing else: what a person renames or copies."""
    top = save.training.directory
    taken = {above for path in others for above in path.parents} | set(others)
    roots = []
    for path in save.files:
        chain = [path, *itertools.takewhile(lambda above: above != top, path.parents)]
        roots.append(next((each for each in reversed(chain) if each not in taken), path))
    return list(dict.fromkeys(roots))


def copy_tree(source, target, *, keeps_times):
    """Copy a file or a directory as `cp -r` or `cp -rp` of its owner does."""
    make_parents(target)
    copy = shutil.copy2 if keeps_times else shutil.copyfile
    if source.is_dir():
        shutil.copytree(source, target, copy_function=copy)
        for folder, _, names in os.walk(target):
            own(folder)
            for name in names:
                own(Path(folder, name))
    else:
        copy(source, target)
        own(target)


def set_times(target, at):
    """Give copied files the time of the world: `cp` writes them now."""
    for path in target.rglob("*") if target.is_dir() else (target,):
        if path.is_file():
            os.utime(path, (at, at))
