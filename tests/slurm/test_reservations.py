"""Maintenance reservations as `scontrol -o show reservation` prints them (recorded with Slurm 22.05.8)."""

from datetime import UTC, datetime

from ckptd.core.model import Maintenance, Unknown
from ckptd.slurm.programs import Programs
from ckptd.slurm.replay import ReplaySource
from ckptd.slurm.reservations import parse_maintenance, read_maintenance
from slurm import stand_in

REST = (
    "TRES=cpu=32 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a "
    "MaxStartDelay=(null)"
)
PRINTED = (
    "ReservationName=maint1 StartTime=1795233016 EndTime=1795233616 Duration=00:10:00 Nodes=n[1-2] NodeCnt=2 "
    "CoreCnt=32 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES " + REST + " \n"
    "ReservationName=work1 StartTime=1795233016 EndTime=1795233616 Duration=00:10:00 Nodes=n2 NodeCnt=1 CoreCnt=16 "
    "Features=(null) PartitionName=(null) Flags=SPEC_NODES " + REST + " \n"
    "ReservationName=licenses StartTime=1795233016 EndTime=1795233616 Duration=00:10:00 Nodes= NodeCnt=0 CoreCnt=0 "
    "Features=(null) PartitionName=(null) Flags=MAINT,ANY_NODES " + REST + " \n"
)
MAINT = Maintenance(
    "maint1", datetime.fromtimestamp(1795233016, UTC), datetime.fromtimestamp(1795233616, UTC), frozenset({"n1", "n2"})
)


def test_maintenance_is_told_from_other_reservations():
    assert parse_maintenance(PRINTED) == (MAINT,)
    assert parse_maintenance("No reservations in the system\n") == ()
    assert parse_maintenance("ReservationName=x StartTime=soon EndTime=later Nodes=n1 Flags=MAINT \n") == ()


def test_slurm_is_asked_with_times_as_seconds(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    stand_in.make_programs(tmp_path, scontrol={"stdout": PRINTED})
    assert read_maintenance(Programs()) == (MAINT,)
    stand_in.write_plan(tmp_path, scontrol={"rc": 1, "stderr": "slurm_load_reservations error: Unable to contact\n"})
    assert isinstance(read_maintenance(Programs()), Unknown)


def test_a_replay_has_what_was_recorded_beside_it(tmp_path):
    source = ReplaySource(tmp_path)
    assert source.read_maintenance() == ()
    (tmp_path / "reservations").write_text(PRINTED)
    assert source.read_maintenance() == (MAINT,)
