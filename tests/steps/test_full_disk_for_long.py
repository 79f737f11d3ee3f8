"""A run that goes on failing to save: what it saved before stays known, however many failed saves came since."""

import os

import pytest

from steps.replayed_fleet import UID, Fleet

HEADER = b'{"a":{"dtype":"F32","shape":[50000],"data_offsets":[0,200000]}}'
GOOD = len(HEADER).to_bytes(8, "little") + HEADER + bytes(200_000)
FAILED_SAVES = 70  # more than a history has checkpoints
SAVES_PER_LOOK = 3


@pytest.fixture
def full(agent, tmp_path, full_disk):
    """A fleet whose jobs work on a file system of three megabytes."""
    full_disk.folder.chmod(0o755)
    work_dir = full_disk.folder / "run"
    work_dir.mkdir()
    os.chown(work_dir, UID, UID)
    driven = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", work_dir)
    yield driven, full_disk
    driven.parts.store.close()


def test_no_room_stays_open_through_any_number_of_failed_saves_and_names_what_is_left(full):
    fleet, disk = full
    job = fleet.job(comment="ckpt=ck")
    for number in range(5):
        fleet.save(f"ck/epoch_{number}.safetensors", number + 1, GOOD)
        fleet.run(number + 2, job)
    disk.fill(left_bytes=360_000)  # less than two checkpoints, also for an open flag
    seen = []
    for number in range(5, 5 + FAILED_SAVES):
        fleet.save(f"ck/epoch_{number}.safetensors", number + 6, GOOD[:30])
        if (number - 5) % SAVES_PER_LOOK == 0:  # so at the last one, too
            fleet.run(number + 8, job)
            seen.append({flag.finding.rule: flag.finding for flag in fleet.parts.store.flags.list_open("c1")})
    assert all("no-room" in flags for flags in seen)
    assert all("damaged-checkpoint" in flags for flags in seen[1:])
    newest = f"{fleet.work_dir}/ck/epoch_4.safetensors"
    last = seen[-1]
    assert last["damaged-checkpoint"].evidence["newest_good"] == newest
    assert last["no-room"].evidence["newest_good"] == newest
    assert last["damaged-checkpoint"].evidence["damaged_since_good"] == FAILED_SAVES
    assert last["no-room"].evidence["held_bytes"] == 5 * len(GOOD) + FAILED_SAVES * 30
    disk.empty()
    fleet.run(200, job)
    assert "no-room" not in {rule for rule, _ in fleet.flags()}
