"""What a round of all steps reads grows with what changed, not with the size of the cluster.

The worlds are small ones of the kind that `tests/bench/growth_table.py` measures: real directories, the real agent,
and programs that stand in for Slurm. Counted are rows from the database, characters to and from the agent, directories
that it lists, files that it opens, and calls of Slurm's programs.
"""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from ckptd.core import health
from ckptd.service.step_table import run_once
from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import SqueueSource
from ckptd.steps.state import begin
from support.listed_directories import ListedDirectories
from support.migrated import open_record
from support.parts import make_parts
from support.shared_agent import get_agent
from support.sized_world import SizedWorld, WorldShape
from support.whole_answers import WholeAnswers

SMALL = WorldShape(jobs=24, running=12, users=2, files=8)  # each owner's directories are scanned alone
SHAPES = {
    "small": SMALL,
    "more running jobs": replace(SMALL, jobs=96, running=48),
    "more waiting jobs": replace(SMALL, jobs=96),
    "more files": replace(SMALL, files=32),
    "one user": replace(SMALL, users=1),
    "small owners": replace(SMALL, users=12),  # they are scanned together
    "more small owners": replace(SMALL, users=24, jobs=96, running=24),
}
# with as many files in a directory, and scanned in the same way
EQUAL = [("small", "more running jobs", "more waiting jobs", "one user"), ("small owners", "more small owners")]
IDLE_ROWS = 12  # of the database for a running job, in a round of all steps
IDLE_CHARACTERS = 1000  # to and from the agent for a directory in which nothing changed
SAVE_ROWS, FILE_ROWS = 38, 2  # of the run and the job in whose directory something changed, and of each of its files
FILE_CHARACTERS = 800  # of each new file
KNOWN_CHARACTERS = 220  # of each other file in a directory in which something changed
NEW_ROWS = 40  # of a new job and its run, beside those of its files


@dataclass
class Counts:
    """What one round did."""

    rows: int
    characters: int
    listed: int
    opened: int
    slurm: list[str]

    def minus(self, other):
        """Return the rows and characters that this round took beyond another one."""
        return self.rows - other.rows, self.characters - other.characters


class CountingAgent(WholeAnswers):
    """The agent, and how many characters its requests and answers have."""

    def __init__(self):
        self._agent = get_agent()
        self.characters = 0

    def run(self, batches):
        answers = self._agent.run(batches)
        for batch, found in zip(batches, answers, strict=True):
            self.characters += len(json.dumps([batch.items, found], default=str))
        return answers


class CountedDaemon:
    """Runs the daemon's steps on a world, with every directory due in each round unless it says otherwise."""

    def __init__(self, root, shape):
        (root / "world").mkdir()
        self.world = SizedWorld(root / "world", shape)
        self._now = datetime.now(UTC)
        self._agent, self._rows = CountingAgent(), Counter()
        self._listed = ListedDirectories()
        store = open_record(f"sqlite:///{root}/record.db")
        self._count_rows(store.database._engine)
        self._parts = make_parts(
            "sized",
            SqueueSource(cluster="sized", programs=Programs(environment=self.world.environment)),
            store,
            self._agent,
            rules=tuple(rule() for name, rule in health.RULES.items() if name != "volatile-path"),
            scan_interval=timedelta(seconds=30),
        )
        self._state = begin(self._parts, self._now)
        for number in range(shape.directory_count):
            self.watch(number)

    def _count_rows(self, engine):
        def count(_cursor, row):
            self._rows["read"] += 1
            return row

        def prepare(connection, _entry):
            connection.row_factory = count

        sa.event.listen(engine, "connect", prepare)
        engine.dispose()

    def watch(self, number):
        self._listed.watch(self.world.directory(number))

    def run(self, seconds=60, changed=()):
        """Run every step once after these seconds, with changes that inotify reports; return what that took."""
        self._now += timedelta(seconds=seconds)
        places = {str(self.world.directory(number)) for number in changed}
        self._state.watchlist.hasten_directories(places, self._now)
        rows, characters, calls = self._rows["read"], self._agent.characters, len(self.world.read_requests())
        self._listed.take()
        run_once(self._parts, self._state, self._now)
        listed, opened = self._listed.take()
        return Counts(
            rows=self._rows["read"] - rows,
            characters=self._agent.characters - characters,
            listed=len(listed),
            opened=len(opened),
            slurm=[line.split()[0] for line in self.world.read_requests()[calls:]],
        )

    def close(self):
        self._listed.close()
        self._parts.store.close()


@dataclass
class Rounds:
    """One round of each kind."""

    first: Counts
    idle: Counts
    reported: Counts
    saved: Counts
    added: Counts


def measure(daemon):
    first = daemon.run()
    daemon.run()
    idle = daemon.run()
    daemon.world.save(1)
    reported = daemon.run(seconds=10, changed=[1])
    daemon.run()
    daemon.world.save(0)
    saved = daemon.run()
    daemon.run()
    daemon.watch(daemon.world.add_job())
    return Rounds(first, idle, reported, saved, daemon.run())


@pytest.fixture(scope="module")
def rounds():
    """The same rounds on every world."""
    found = {}
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            daemon = CountedDaemon(Path(folder), shape)
            found[name] = measure(daemon)
            daemon.close()
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_a_round_without_changes_lists_each_directory_once_and_opens_no_file(rounds, name):
    shape, idle = SHAPES[name], rounds[name].idle
    assert (idle.listed, idle.opened, idle.slurm) == (shape.running, 0, ["squeue"])
    assert idle.rows <= IDLE_ROWS * shape.running
    assert idle.characters <= IDLE_CHARACTERS * shape.running


def test_a_round_without_changes_depends_on_running_jobs_alone(rounds):
    rows = [rounds[name].idle.rows / shape.running for name, shape in SHAPES.items()]
    assert max(rows) == rounds["small"].idle.rows / SHAPES["small"].running
    sizes = [rounds[name].idle.characters / shape.running for name, shape in SHAPES.items()]
    assert max(sizes) < 1.05 * min(sizes)


@pytest.mark.parametrize("name", SHAPES)
def test_the_first_round_opens_each_file_once(rounds, name):
    shape, first = SHAPES[name], rounds[name].first
    assert (first.listed, first.opened) == (shape.running, shape.file_count)
    assert first.slurm.count("squeue") <= 2


@pytest.mark.parametrize("name", SHAPES)
def test_a_reported_save_lists_one_directory_and_opens_one_file(rounds, name):
    shape, reported = SHAPES[name], rounds[name].reported
    assert (reported.listed, reported.opened, reported.slurm) == (1, 1, ["squeue"])
    assert reported.rows <= shape.running + SAVE_ROWS + FILE_ROWS * shape.files
    assert reported.characters <= IDLE_CHARACTERS + FILE_CHARACTERS + KNOWN_CHARACTERS * shape.files


@pytest.mark.parametrize("name", SHAPES)
def test_a_save_costs_what_the_files_of_its_directory_cost(rounds, name):
    shape, saved, idle = SHAPES[name], rounds[name].saved, rounds[name].idle
    assert (saved.listed, saved.opened, saved.slurm) == (shape.running, 1, ["squeue"])
    rows, characters = saved.minus(idle)
    assert 0 < rows <= SAVE_ROWS + FILE_ROWS * shape.files
    assert 0 < characters <= FILE_CHARACTERS + KNOWN_CHARACTERS * shape.files


@pytest.mark.parametrize("name", SHAPES)
def test_a_new_job_costs_what_the_files_of_its_directory_cost(rounds, name):
    shape, added, idle = SHAPES[name], rounds[name].added, rounds[name].idle
    assert (added.listed, added.opened, added.slurm) == (shape.running + 1, shape.files, ["squeue"])
    rows, characters = added.minus(idle)
    assert 0 < rows <= NEW_ROWS + FILE_ROWS * shape.files
    assert 0 < characters <= IDLE_CHARACTERS + FILE_CHARACTERS * shape.files


@pytest.mark.parametrize("names", EQUAL)
@pytest.mark.parametrize("kind", ["saved", "added"])
def test_a_change_costs_the_same_in_a_larger_cluster(rounds, kind, names):
    found = {name: getattr(rounds[name], kind).minus(rounds[name].idle) for name in names}
    assert len({rows for rows, _ in found.values()}) == 1
    sizes = [characters for _, characters in found.values()]
    assert max(sizes) < 1.05 * min(sizes)


def count_searched(count):
    """Return the characters of a round in which each of a user's jobs is searched for, of which none names a place."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        daemon = CountedDaemon(Path(folder), WorldShape(jobs=count, running=count, users=1, files=2, is_named=False))
        for _ in range(2):  # found, and then searched for again: what they save is no state to resume from
            daemon.run(seconds=600)
        characters = daemon.run(seconds=600).characters
        daemon.close()
    return characters


def test_searches_for_the_jobs_of_one_user_grow_with_their_number():
    assert count_searched(60) < 2.1 * count_searched(30)
