"""What a scan tells of the jobs' own words, whatever users have made of the files."""

import json
import os

import pytest

from ckptd.checkpoints.scanning import declarations, resumed_file
from ckptd.core.model import DeclaredResume
from ckptd.core.runs.declared_resume import MAX_DECLARED
from support import hanging_file_system

ROOTS = ["/"]


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def collect(*places, roots=ROOTS, job_ids=(7,)):
    return declarations.collect(list(map(str, places)), roots, job_ids)


def say(work, path, job_id=7, restart_count=1, **changes):
    resumed_file.append(str(work), DeclaredResume(path=path, job_id=job_id, restart_count=restart_count, **changes))


def test_only_the_words_of_the_jobs_in_question_are_told(work):
    say(work, "/run/epoch_1.pt", job_id=6)
    say(work, "/run/epoch_2.pt")
    assert [each.path for each in collect(work)] == ["/run/epoch_2.pt"]
    assert collect(work, job_ids=()) == ()


def test_the_same_line_in_two_directories_counts_once(work, tmp_path):
    os.symlink(work, tmp_path / "same")
    say(work, "/run/epoch_2.pt")
    assert len(collect(work, tmp_path / "same", tmp_path / "absent")) == 1


def test_a_directory_outside_the_allowed_roots_is_not_read(work, tmp_path):
    say(work, "/run/epoch_2.pt")
    assert collect(work, roots=[str(tmp_path / "other")]) == ()
    os.symlink(work, tmp_path / "other")
    assert collect(tmp_path / "other", roots=[str(tmp_path / "roots")]) == ()


def test_links_on_the_way_to_a_path_are_resolved_and_one_at_its_end_is_not(work, tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "scratch")
    os.symlink("epoch_9.pt", tmp_path / "real/last.pt")
    say(work, f"{tmp_path}/scratch/last.pt")
    (said,) = collect(work)
    assert said.real_path == f"{tmp_path}/real/last.pt"


@pytest.mark.parametrize("content", [b"{" * 1_000_000, b"\xff\0\n" * 1000, b'{"path": 7, "job": 7}', b"[" * 100_000])
def test_junk_declares_nothing(work, content):
    (work / ".ckptd").mkdir()
    (work / ".ckptd/resumed").write_bytes(content)
    assert collect(work) == ()


def test_the_number_of_answers_is_bounded(work):
    for count in range(2 * MAX_DECLARED):
        say(work, "/run/epoch_1.pt", restart_count=count)
    assert len(collect(work)) == MAX_DECLARED


@pytest.mark.parametrize("answer", [None, {}, [None], [{"path": "relative"}], [{"path": "/a"}] * (MAX_DECLARED + 1)])
def test_an_answer_that_is_none_is_refused(answer):
    with pytest.raises(ValueError, match="declared resume"):
        declarations.decode(json.loads(json.dumps(answer)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_dead_file_system_hides_only_what_is_said_there(work, monkeypatch):
    monkeypatch.setattr(declarations, "SECONDS", 1.0)
    say(work, "/run/epoch_2.pt")
    with hanging_file_system.mounted(work / "dead") as is_mounted:
        if not is_mounted:
            pytest.skip("this system lets not even root mount FUSE")
        assert len(collect(work, work / "dead")) == 1
