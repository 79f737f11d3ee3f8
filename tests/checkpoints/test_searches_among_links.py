"""A search that names few directories of other jobs finds the same as one that names all, wherever links lead."""

import os
import random
import tempfile
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints.agent.scan_client import ScanLimits, locate_jobs
from ckptd.core.discovery.nearby_candidates import plan_search, sort_neighbours
from ckptd.core.model import JobKey, RunKey
from ckptd.core.queue import TrackedJob
from core.histories import START, at, attempt, history, job
from support.shared_agent import get_agent
from support.sized_world import FIRST_UID, make_checkpoint

NAMES = ("run", "run-2", "run0", "run.bak", "rün", "run\udcff", "a b", "run!")
LIMITS = ScanLimits(deadline=timedelta(seconds=10))


def make_tree(chance, root):
    """Make directories three levels deep, some with checkpoints, and links between them; return both."""
    directories, links, open_levels = [root], [], [(root, 0)]
    while open_levels:
        above, depth = open_levels.pop()
        for name in chance.sample(NAMES, chance.randint(1, 3)):
            path = os.path.join(above, name)
            if chance.random() < 0.3:
                target = chance.choice(directories)
                os.symlink(chance.choice((target, os.path.relpath(target, above))), path)
                links.append(path)
                continue
            os.mkdir(path)
            directories.append(path)
            open_levels += [(path, depth + 1)] if depth < 3 else []
    for each in directories:
        if each != root and chance.random() < 0.6:
            Path(each, "step_1.safetensors").write_bytes(make_checkpoint(1))
            os.utime(f"{each}/step_1.safetensors", (at(chance.randint(10, 90)).timestamp(),) * 2)
            os.chown(f"{each}/step_1.safetensors", FIRST_UID, -1)
        os.chown(each, FIRST_UID, -1)
    return directories, links


def choose_work_dir(chance, directories, links):
    place = chance.choice([*directories, *links, *links])
    written = (place, f"{place}/", f"/{place}", f"{place}/..", f"{place}/../{os.path.basename(place)}")
    below = (f"{each}/{chance.choice(NAMES)}" for each in links[:1])
    return PurePosixPath(chance.choice([place, place, place, *written, *below]))


def plan_searches(chance, root):
    """Return the searches of a user's jobs, of which about half have a directory, found by a search or named."""
    directories, links = make_tree(chance, root)
    jobs, histories = [], {}
    for number in range(1, chance.randint(4, 10)):
        run = RunKey("c1", FIRST_UID, chance.choice(directories) if chance.random() < 0.5 else f"job:{number}@x")
        jobs.append(
            TrackedJob(
                key=JobKey("c1", number, START),
                job=job(
                    number,
                    uid=FIRST_UID,
                    name=chance.choice("abc"),
                    work_dir=choose_work_dir(chance, directories, links),
                    array_job_id=chance.choice((None, None, 1)),
                ),
                attempt=attempt(chance.choice((0, 50)), job_id=number),
                run=run,
                last_seen_at=START,
                ended_at=None,
            )
        )
        if run.is_located and chance.random() < 0.3:
            histories[run] = history(key=run, located_by=chance.choice(("discovery", "comment")))
    neighbours = sort_neighbours(jobs)
    sought = [plan_search(each.run, neighbours, histories, at(200)) for each in jobs if not each.run.is_located]
    saved_in = {each.run.directory for each in jobs if each.run.is_located}
    return [each for each in sought if each is not None], saved_in


@pytest.mark.parametrize("seed", range(20))
def test_a_search_never_takes_a_directory_that_another_job_is_known_to_save_in(seed):
    agent = get_agent(keeps_children=False)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = os.path.join(os.path.realpath(name), "user")  # .. leads to what belongs to this test, too
        os.mkdir(root)
        searches, saved_in = plan_searches(random.Random(seed), root)
        found = locate_jobs(agent, searches, (), LIMITS)
        assert found == locate_jobs(agent, [each.exclude_all() for each in searches], (), LIMITS)
        for each, answer in zip(searches, found, strict=True):
            directory = getattr(answer, "directory", None)
            assert directory is None or str(directory) not in saved_in - {*each.allowed}
