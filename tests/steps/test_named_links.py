"""Links that name a checkpoint directory, such as `latest`, and that lead to another one after a restart."""

import os
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ckptd.checkpoints.scanning.locate import SiteRule
from steps.replayed_fleet import UID, minute
from support.checkpoint_bytes import torch_state


def row_of(fleet):
    [row] = fleet.parts.store.jobs.list_open(minute(170))
    return row


def read(fleet):
    [run] = fleet.parts.store.runs.find_of_job(1)
    [history] = fleet.parts.store.histories.read("c1", [run])
    return history


def link(fleet, target, name="out"):
    path = fleet.work_dir / name
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    os.lchown(path, UID, UID)


def name_in_script(fleet):
    fleet.parts = replace(fleet.parts, reads_batch_scripts=True)
    return {}


def name_in_comment(fleet):
    return {"comment": "ckpt=out"}


def name_in_file(fleet):
    fleet.save(".ckptd.toml", 0, b'directory = "out"\n')
    return {}


def run_first(fleet, changes):
    """Run the first attempt: an epoch each ten minutes in run_1, which a link names."""
    fleet.save("run_1/note.txt", 0, b"")
    link(fleet, "run_1")
    job = fleet.job(**changes)
    fleet.run(1, job)
    for epoch in (1, 2, 3):
        fleet.save(f"run_1/epoch_{epoch}.pt", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/run_1"
    return fleet.job(start=41, restart_count=1, submitted_at=minute(40), **changes)


@pytest.mark.parametrize("name", [name_in_script, name_in_comment, name_in_file])
def test_a_link_that_leads_elsewhere_after_a_restart_is_followed(name, fleet):
    again = run_first(fleet, name(fleet))
    fleet.run(42, again)
    fleet.save("run_2/epoch_4.pt", 51, torch_state(4))
    link(fleet, "run_2")
    for minutes in (52, 57, 58):
        assert fleet.run(minutes, again) == []
    fleet.save("run_2/epoch_5.pt", 61, torch_state(5))
    assert fleet.run(62, again) == []
    row, history = row_of(fleet), read(fleet)
    assert (row.directory, row.epoch) == (f"{fleet.work_dir}/run_2", 5)
    assert [each.directory for each in history.earlier] == [f"{fleet.work_dir}/run_1"]
    assert history.attempts[1].resumed_from.path == f"{fleet.work_dir}/run_1/epoch_3.pt"
    assert fleet.run(150, again) == [("checkpoint-overdue", 1)]


def test_a_link_that_moves_while_its_job_runs_is_followed(fleet):
    run_first(fleet, name_in_comment(fleet))
    fleet.save("run_2/epoch_4.pt", 40, torch_state(4))
    link(fleet, "run_2")
    for minutes in (42, 47, 48):
        assert fleet.run(minutes) == []
    assert (row_of(fleet).directory, row_of(fleet).epoch) == (f"{fleet.work_dir}/run_2", 4)


@contextmanager
def counted_searches(fleet):
    """Count the searches that the agent is asked for meanwhile."""
    asked = []

    class Counting:
        def __getattr__(self, name):
            return getattr(agent, name)

        def run(self, batches):
            asked.extend(item for batch in batches if batch.operation == "locate" for item in batch.items)
            return agent.run(batches)

    parts, agent = fleet.parts, fleet.parts.agent
    fleet.parts = replace(parts, agent=Counting())
    yield asked
    fleet.parts = parts


def name_whole_in_comment(fleet):
    return {"comment": f"ckpt={fleet.work_dir}/run_1"}


def name_in_rule(fleet):
    fleet.parts = replace(fleet.parts, site_rules=(SiteRule(directory="{work_dir}/run_1"),))
    return {}


def run_in_named(fleet, changes):
    """Run an attempt whose directory is named as it is, and saves an epoch each ten minutes."""
    job = fleet.job(**changes)
    for epoch in (1, 2, 3):
        fleet.save(f"run_1/epoch_{epoch}.pt", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/run_1"


@pytest.mark.parametrize("name", [name_whole_in_comment, name_in_rule])
def test_a_directory_that_is_named_as_it_is_needs_no_question(name, fleet):
    run_in_named(fleet, name(fleet))
    with counted_searches(fleet) as asked:
        for minutes in (60, 90, 120):
            fleet.run(minutes)
    assert asked == []


def test_a_link_needs_a_question(fleet):
    run_first(fleet, name_in_comment(fleet))
    with counted_searches(fleet) as asked:
        fleet.run(60)
    assert len(asked) == 1


@pytest.mark.parametrize("name", [name_whole_in_comment, name_in_rule])
def test_a_link_in_place_of_the_named_directory_is_followed(name, fleet):
    run_in_named(fleet, name(fleet))
    (fleet.work_dir / "run_1").rename(fleet.work_dir / "run_0")
    fleet.save("run_2/epoch_4.pt", 40, torch_state(4))
    link(fleet, "run_2", "run_1")
    for minutes in (47, 48, 49, 50):
        fleet.run(minutes)
    assert (row_of(fleet).directory, row_of(fleet).epoch) == (f"{fleet.work_dir}/run_2", 4)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a directory of another user")
def test_a_link_to_what_is_not_the_jobs_is_not_followed(fleet):
    again = run_first(fleet, name_in_comment(fleet))
    fleet.run(42, again)
    fleet.save("others/epoch_4.pt", 51, torch_state(4))
    for path in (fleet.work_dir / "others", fleet.work_dir / "others/epoch_4.pt"):
        os.chown(path, UID + 1, UID + 1)
    link(fleet, "others")
    for minutes in (52, 57, 58, 65):
        fleet.run(minutes, again)
    assert row_of(fleet).directory == f"{fleet.work_dir}/run_1"


def test_a_script_that_names_a_second_directory_names_no_link(fleet):
    fleet.save("run_1/note.txt", 0, b"")
    fleet.source.read_batch_script = lambda job, **_: (
        "#!/bin/bash\npython train.py --checkpoint-dir best --save-dir run_1\n"
    )
    fleet.parts = replace(fleet.parts, reads_batch_scripts=True)
    job = fleet.job()
    for epoch in (1, 2, 3):
        fleet.save(f"run_1/epoch_{epoch}.pt", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/run_1"
    fleet.save("best/model.pt", 35, torch_state(3))
    for minutes in (48, 55):
        fleet.run(minutes, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/run_1"
