"""Requests to find directories grow with the jobs that are searched for, not with their product with the others."""

import json
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent.scan_client import ScanLimits, locate_jobs
from ckptd.core.discovery.nearby_candidates import DirectorySearch
from ckptd.core.model import Unknown
from core.histories import at, job

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


def test_an_agent_that_does_not_answer_is_not_asked_twice():
    class Silent:
        calls = 0

        def run(self, batches):
            self.calls += 1
            return [[Unknown(what="directory", reason="silence")] * len(batch.items) for batch in batches]

    agent = Silent()
    [found] = locate_jobs(agent, [search(1, 2, "ckpt=/scratch/run1")], (), LIMITS)
    assert (found, agent.calls) == (Unknown(what="directory", reason="silence"), 1)
