"""A job whose saves all come out damaged: one flag, opened once, that names the newest complete set."""

import os
import shutil
from dataclasses import replace
from datetime import timedelta

import pytest

from steps.replayed_fleet import UID
from support.checkpoint_bytes import adam, safetensors
from support.shared_agent import get_agent
from support.torch_pickle import torch_file

MODEL = safetensors()
OPTIMIZER = torch_file(adam())
CUT_SHORT = OPTIMIZER[: len(OPTIMIZER) * 2 // 3]


def keep_all(_fleet, number):
    return f"ck/epoch-{number}"


def keep_two(fleet, number):
    if number > 2:
        shutil.rmtree(fleet.work_dir / f"ck/epoch-{number - 2}")
    return f"ck/epoch-{number}"


def keep_one(fleet, number):
    if number > 1:
        shutil.rmtree(fleet.work_dir / f"ck/epoch-{number - 1}")
    return f"ck/epoch-{number}"


def overwrite(fleet, number):
    for name in ("model.safetensors", "optimizer.pt"):
        (fleet.work_dir / "ck/last" / name).unlink(missing_ok=True)
    return "ck/last"


def save(fleet, place, minutes, name, content):
    (fleet.work_dir / place).mkdir(parents=True, exist_ok=True)
    for each in (fleet.work_dir / "ck", fleet.work_dir / place):
        os.chown(each, UID, UID)
    fleet.save(f"{place}/{name}", minutes, content)


@pytest.mark.parametrize(
    ("place", "write_grace_seconds"), [(keep_all, 1), (keep_all, 60), (keep_two, 60), (keep_one, 1), (overwrite, 60)]
)
def test_a_run_of_damaged_saves_is_one_critical_flag_that_opens_once(fleet, place, write_grace_seconds):
    fleet.parts = replace(
        fleet.parts,
        agent=get_agent(write_grace=f"{write_grace_seconds}s"),
        scan_interval=timedelta(seconds=30),
    )
    job = fleet.job(comment="ckpt=ck")
    fleet.run(1, job)
    is_open = []
    for number in range(1, 5):
        where = place(fleet, number)
        save(fleet, where, number * 2 - 0.2, "model.safetensors", MODEL)
        is_open += [scan(fleet, job, number * 2)]
        save(fleet, where, number * 2 + 0.3, "optimizer.pt", CUT_SHORT)
        is_open += [scan(fleet, job, number * 2 + later) for later in (0.5, 1, 1.5)]
    first = is_open.index(True)
    assert first <= (4 if write_grace_seconds == 60 else 2)  # two scans after it counts as written
    assert all(is_open[first:])
    finding = damage(fleet)
    assert finding.evidence["newest_good"] is None
    save(fleet, where, 17, "optimizer.pt", OPTIMIZER)
    save(fleet, where, 17, "model.safetensors", MODEL)
    assert not scan(fleet, job, 19)


def scan(fleet, job, minutes):
    fleet.run(minutes, job)
    return ("damaged-checkpoint", 1) in fleet.flags()


def damage(fleet):
    open_flags = [each.finding for each in fleet.parts.store.flags.list_open("c1")]
    return next(each for each in open_flags if each.rule == "damaged-checkpoint")


def test_parameters_beside_a_damaged_optimizer_are_never_the_newest_good_checkpoint(fleet):
    job = fleet.job(comment="ckpt=ck")
    for number, optimizer in enumerate((OPTIMIZER, CUT_SHORT, CUT_SHORT), 1):
        save(fleet, f"ck/epoch-{number}", number, "model.safetensors", MODEL)
        save(fleet, f"ck/epoch-{number}", number + 0.1, "optimizer.pt", optimizer)
    assert scan(fleet, job, 6)
    finding = damage(fleet)
    assert finding.evidence["path"] == f"{fleet.work_dir}/ck/epoch-3"
    assert finding.evidence["newest_good"] == f"{fleet.work_dir}/ck/epoch-1"
    save(fleet, "ck/epoch-4", 7, "model.safetensors", MODEL)  # its optimizer is still to come
    assert scan(fleet, job, 8)
    assert damage(fleet).evidence["newest_good"] == f"{fleet.work_dir}/ck/epoch-1"


@pytest.mark.parametrize("marker", ["latest", "checkpoint", "latest_checkpointed_iteration.txt"])
def test_a_marker_beside_complete_checkpoints_is_no_damage_when_it_is_caught_empty_or_names_the_newest(fleet, marker):
    job = fleet.job(comment="ckpt=ck")
    for number in (1, 2, 3):
        fleet.save(f"ck/checkpoint-{number}.safetensors", number, MODEL)
        fleet.save(f"ck/{marker}", number + 0.1, b"")
        assert not scan(fleet, job, number + 0.5)
        fleet.save(f"ck/{marker}", number + 0.2, f"checkpoint-{number}.safetensors\n".encode())
        assert not scan(fleet, job, number + 0.9)
    assert not scan(fleet, job, 9)
