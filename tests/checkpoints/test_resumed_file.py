import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ckptd.checkpoints.scanning import resumed_file
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core.model import DeclaredResume
from ckptd.core.runs.declared_resume import format_line

SAID = DeclaredResume(path="/run/epoch_3.pt", job_id=7, restart_count=0, said_at=datetime(2026, 11, 22, tzinfo=UTC))
OTHER = DeclaredResume(path="/run/epoch_4.pt", job_id=8, restart_count=0, said_at=datetime(2026, 11, 22, 1, tzinfo=UTC))


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_what_was_said_is_read_in_its_order(work):
    assert resumed_file.read(str(work)) == ()
    for said in (SAID, OTHER):
        resumed_file.append(str(work), said)
    assert resumed_file.read(str(work)) == (SAID, OTHER)
    assert (work / ".ckptd/resumed").stat().st_mode & 0o777 == 0o644 & ~_umask()


def test_a_last_line_without_its_time_was_written_when_the_file_was(work):
    for path in ("/run/epoch_1.pt", "/run/epoch_2.pt"):
        resumed_file.append(str(work), DeclaredResume(path=path))
    os.utime(work / ".ckptd/resumed", (0, 3600))
    times = [said.said_at for said in resumed_file.read(str(work))]
    assert times == [None, datetime(1970, 1, 1, 1, tzinfo=UTC)]


def test_a_scan_does_not_see_it(work):
    resumed_file.append(str(work), SAID)
    assert list_tree(work).is_empty


def test_a_line_after_one_that_was_cut_off_is_a_line_of_its_own(work):
    resumed_file.append(str(work), SAID)
    with (work / ".ckptd/resumed").open("a") as file:
        file.write('{"path": "/run/ep')
    resumed_file.append(str(work), OTHER)
    assert resumed_file.read(str(work)) == (SAID, OTHER)


def test_lines_of_jobs_that_write_at_once_are_whole(work):
    said = [DeclaredResume(path=f"/{'x' * 3000}", job_id=number) for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: resumed_file.append(str(work), each), said))
    found = resumed_file.read(str(work))
    assert len(found) > 50  # what fits into the bound
    assert {replace(each, said_at=None) for each in found} <= set(said)


def test_a_file_that_grew_is_begun_anew_and_little_of_a_large_one_is_read(work):
    resumed_file.append(str(work), SAID)
    file = work / ".ckptd/resumed"
    with file.open("a") as opened:
        opened.write("junk\n" * 300_000)
    began = time.monotonic()
    assert resumed_file.read(str(work)) == ()
    assert time.monotonic() - began < 5
    resumed_file.append(str(work), OTHER)
    assert resumed_file.read(str(work)) == (OTHER,)
    assert (work / ".ckptd/resumed.old").read_text().startswith(format_line(SAID))


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _link_directory(work, victim):
    (work / ".ckptd").symlink_to(victim.parent)


def _link_file(work, victim):
    (work / ".ckptd").mkdir()
    (work / ".ckptd/resumed").symlink_to(victim)


def _hard_link(work, victim):
    (work / ".ckptd").mkdir()
    (work / ".ckptd/resumed").hardlink_to(victim)


def _fifo(work, victim):
    (work / ".ckptd").mkdir()
    os.mkfifo(work / ".ckptd/resumed")


def _file_as_directory(work, victim):
    (work / ".ckptd").write_text("")


@pytest.mark.parametrize("trap", [_link_directory, _link_file, _hard_link, _fifo, _file_as_directory])
def test_no_trap_makes_it_write_or_read_anything_else(trap, work, tmp_path):
    (tmp_path / "home").mkdir()
    victim = tmp_path / "home/resumed"
    victim.write_text("precious\n")
    trap(work, victim)
    with pytest.raises(resumed_file.NotOwnFileError):
        resumed_file.append(str(work), SAID)
    with pytest.raises(resumed_file.NotOwnFileError):
        resumed_file.read(str(work))
    assert victim.read_text() == "precious\n"
    assert [path.name for path in victim.parent.iterdir()] == ["resumed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_a_file_of_another_user_counts_for_nothing(work):
    resumed_file.append(str(work), SAID)
    os.chown(work / ".ckptd/resumed", 12345, 12345)
    with pytest.raises(resumed_file.NotOwnFileError, match="uid 12345"):
        resumed_file.read(str(work))
    with pytest.raises(resumed_file.NotOwnFileError, match="uid 12345"):
        resumed_file.append(str(work), OTHER)
