"""Requests to find directories grow with the jobs that are searched for, not with their product with the others."""

import json
import os
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints.agent.scan_client import ScanLimits, locate_jobs
from ckptd.core.discovery.nearby_candidates import DirectorySearch, plan_search, sort_neighbours
from ckptd.core.model import RunKey, Unknown
from core.histories import at, job
from core.test_nearby_candidates import tracked
from support.shared_agent import get_agent
from support.sized_world import make_checkpoint

LIMITS = ScanLimits(deadline=timedelta(seconds=10))


class ToldAgent:
    """An agent that finds the named directories that are there, and by a search `/found`."""

    def __init__(self, there):
        self.there = there
        self.items = []

    def run(self, batches):
        self.items += [item for batch in batches for item in batch.items]
        return [[self._find(item) for item in batch.items] for batch in batches]

    def _find(self, item):
        for located_by, path in item["candidates"]:
            found = "/found" if located_by == "discovery" else path
            if located_by == "discovery" or found in self.there:
                return {
                    "directory": found,
                    "located_by": located_by,
                    "user_settings": {},
                    "problems": [],
                    "entry_count": 0,
                }
        return {"directory": None, "located_by": None, "user_settings": {}, "problems": [], "entry_count": 0}


def search(number, others, comment):
    return DirectorySearch(
        job=job(number, comment=comment, work_dir=PurePosixPath("/home/alice")),
        since=at(0),
        began_at=at(0),
        excluded=tuple(f"/scratch/other{each}" for each in range(others)),
    )


def ask(count, comment="ckpt=/scratch/run{}"):
    agent = ToldAgent({f"/scratch/run{number}" for number in range(1, count + 1)})
    searches = [search(number, count, comment.format(number)) for number in range(1, count + 1)]
    return agent, locate_jobs(agent, searches, (), LIMITS)


def test_a_named_directory_is_found_without_the_directories_of_other_jobs():
    agent, found = ask(3)
    assert [(str(each.directory), each.located_by) for each in found] == [
        (f"/scratch/run{number}", "comment") for number in (1, 2, 3)
    ]
    assert [(item["excluded"], len(item["candidates"])) for item in agent.items] == [([], 2)] * 3


def test_requests_for_named_directories_grow_linearly():
    sizes = [len(json.dumps(ask(count)[0].items)) for count in (50, 100, 200)]
    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[2] < 2.2 * sizes[1]


@pytest.mark.parametrize("comment", ["", "ckpt=/scratch/not-yet{}"])
def test_what_is_not_named_or_not_there_yet_is_searched_for(comment):
    agent, found = ask(2, comment)
    assert [(str(each.directory), each.located_by) for each in found] == [("/found", "discovery")] * 2
    assert [len(item["excluded"]) for item in agent.items[-2:]] == [2, 2]


def plan_searches(count, work_dir):
    """Return searches for jobs of one user, of which as many others have a directory."""
    neighbours = sort_neighbours(
        tracked(
            number + is_located * count,
            name=f"job{number}",
            directory=work_dir.format(number) if is_located else None,
            work_dir=place,
        )
        for number in range(1, count + 1)
        for is_located in (False, True)
        for place in [PurePosixPath(work_dir.format(number + is_located * count))]
    )
    return [
        plan_search(RunKey("c1", 1000, f"job:{number}@x"), neighbours, {}, at(200)) for number in range(1, count + 1)
    ]


def test_searches_in_directories_of_their_own_grow_linearly():
    sizes = []
    for count in (50, 100, 200):
        agent = ToldAgent(set())
        locate_jobs(agent, plan_searches(count, "/home/alice/job{}"), (), LIMITS)
        sizes.append(len(json.dumps(agent.items)))
    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[2] < 2.2 * sizes[1]


def test_an_agent_that_does_not_answer_is_not_asked_twice():
    class Silent:
        calls = 0

        def run(self, batches):
            self.calls += 1
            return [[Unknown(what="directory", reason="silence")] * len(batch.items) for batch in batches]

    agent = Silent()
    [found] = locate_jobs(agent, [search(1, 2, "ckpt=/scratch/run1")], (), LIMITS)
    assert (found, agent.calls) == (Unknown(what="directory", reason="silence"), 1)


def make_checkpoints(directory, count, owner):
    directory.mkdir(parents=True, exist_ok=True)
    os.chown(directory, owner, -1)
    for step in range(count):
        path = directory / f"step_{step}.safetensors"
        path.write_bytes(make_checkpoint(step))
        os.utime(path, (at(600).timestamp(),) * 2)
        os.chown(path, owner, -1)


@pytest.fixture
def shared_place():
    """Two working directories of several jobs each, and their owner."""
    owner = 61_000_000 if os.geteuid() == 0 else os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        for place in ("sweep", "other"):
            make_checkpoints(root / place, 0, owner)
            for number in range(3):
                make_checkpoints(root / place / f"task{number}", 4, owner)
        yield root, owner


def test_what_is_found_through_a_link_is_not_the_directory_of_another_job(shared_place):
    root, owner = shared_place
    (root / "link").symlink_to("sweep")
    others = {str(root / "sweep" / f"task{number}") for number in (0, 2)}
    sought = DirectorySearch(
        job=job(1, uid=owner, work_dir=root / "link"), since=at(0), began_at=at(0), all_known=others, allowed=()
    )
    [found] = locate_jobs(get_agent(keeps_children=False), [sought], (), LIMITS)
    assert (found.directory, found.found.is_only) == (root / "sweep" / "task1", True)
    assert found.entry_count == 2 * (3 + 3 * 4)  # it was searched twice
    everything = {*others, str(root / "sweep" / "task1")}
    [found] = locate_jobs(get_agent(keeps_children=False), [replace(sought, all_known=everything)], (), LIMITS)
    assert found.directory is None


def test_jobs_with_one_working_directory_have_it_listed_once(shared_place):
    root, owner = shared_place
    searches = [
        DirectorySearch(
            job=job(number, uid=owner, work_dir=root / name),
            since=at(0),
            began_at=at(0),
            excluded=tuple(str(root / name / f"task{each}") for each in range(3) if each != number % 3),
        )
        for number, name in enumerate(("sweep", "other") * 3)
    ]
    found = locate_jobs(get_agent(keeps_children=False), searches, (), LIMITS)
    assert [each.directory for each in found] == [
        root / name / f"task{number % 3}" for number, name in enumerate(("sweep", "other") * 3)
    ]
    assert [len(each.found.saves) for each in found] == [4] * 6
    assert sum(each.entry_count for each in found) == 2 * (3 + 3 * 4)  # all of both places, once
