"""What a scan tells of links and of `resume_from`, whatever users have made of them."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from ckptd.checkpoints.agent.scan_json import decode_scan, encode_scan
from ckptd.checkpoints.scanning import pointers
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.scanning.pointers import gather, look_up_paths
from ckptd.core.model import Scan, SeenLink
from support.queue_facts import NOON

ROOTS = ["/"]


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / "run"
    directory.mkdir()
    for number in (1, 2, 3):
        np.savez(directory / f"epoch_{number}.npz", weights=np.arange(10.0), epoch=number)
    return directory


def seen(directory, *work_dirs, roots=ROOTS):
    found = inspect_tree(directory, now=NOON)
    return gather(found.link_texts, list(map(str, work_dirs)), roots, str(directory))


def real(links):
    return {Path(link.path).name: link.real for link in links}


def test_links_tell_what_they_lead_to_directly_and_by_other_links(run, tmp_path):
    (run / "best.npz").symlink_to("epoch_1.npz")
    (run / "last.npz").symlink_to("best.npz")
    (run / "up.npz").symlink_to("../run/epoch_2.npz")
    (tmp_path / "alias").symlink_to(run)
    (run / "far.npz").symlink_to(tmp_path / "alias/epoch_3.npz")
    (run / "gone.npz").symlink_to("epoch_9.npz")
    links = {Path(link.path).name: link for link in seen(run)}
    first = str(run / "epoch_1.npz")
    assert (links["best.npz"].real, links["last.npz"].real) == (first, first)
    assert links["last.npz"].target == str(run / "best.npz")
    assert links["up.npz"].real == str(run / "epoch_2.npz")
    assert links["far.npz"].real == str(run / "epoch_3.npz")
    status = (run / "epoch_3.npz").stat()
    assert (links["far.npz"].device, links["far.npz"].inode) == (status.st_dev, status.st_ino)
    assert (links["gone.npz"].target, links["gone.npz"].real) == (str(run / "epoch_9.npz"), None)


def test_a_link_to_a_directory_is_known_by_a_file_in_it(run, tmp_path):
    (tmp_path / "other" / "a").mkdir(parents=True)
    (tmp_path / "other" / "a" / "rank0.pt").write_bytes(b"x")
    (run / "latest").symlink_to(tmp_path / "other")
    (link,) = seen(run)
    assert (link.real, link.inside) == (str(tmp_path / "other"), "a/rank0.pt")
    assert link.inode == (tmp_path / "other/a/rank0.pt").stat().st_ino


def test_a_link_to_what_is_no_checkpoint_of_the_same_tree_is_left_out(run):
    (run / "notes.txt").write_text("x")
    (run / "link.txt").symlink_to("notes.txt")
    assert seen(run) == []


def test_loops_and_other_odd_links_lead_nowhere_and_hold_nothing_up(run):
    (run / "a").symlink_to("b")
    (run / "b").symlink_to("a")
    (run / "long").symlink_to("x" * 4000)
    (run / "newline\n\udcff").symlink_to("epoch_1.npz")
    os.mkfifo(run / "pipe")
    (run / "to_pipe").symlink_to("pipe")
    (run / "to_proc").symlink_to("/proc/self/fd/0")
    links = real(seen(run))
    assert links["a"] is links["b"] is links["long"] is None
    assert links["newline\n\udcff"] == str(run / "epoch_1.npz")


def test_of_many_links_the_newest_are_told_and_that_there_are_more(run, monkeypatch):
    monkeypatch.setattr(pointers, "MAX_LINKS", 2)
    for number in range(4):
        (run / f"link{number}").symlink_to(f"/nowhere/{number}")
        os.utime(run / f"link{number}", (number, number), follow_symlinks=False)
    links = seen(run)
    assert links[0] == SeenLink(path=str(run), target="")
    assert {link.target for link in links[1:]} == {"/nowhere/2", "/nowhere/3"}


def test_a_hundred_thousand_links_are_told_in_a_bounded_time(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for number in range(100):
        os.symlink(f"/nowhere/{number}", run / f"link{number}")
    for number in range(100, 100_000):  # more names of the same links: to make a link takes far longer
        os.link(run / f"link{number % 100}", run / f"link{number}", follow_symlinks=False)
    began = time.process_time()
    assert len(seen(run)) == pointers.MAX_LINKS + 1
    assert time.process_time() - began < 20


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to somebody else")
def test_a_link_of_somebody_else_is_left_out(run):
    (run / "best.npz").symlink_to("epoch_1.npz")
    os.chown(run / "best.npz", 54_321, -1, follow_symlinks=False)
    assert seen(run) == []


def test_links_in_a_working_directory_are_told_and_not_those_below_it(run, tmp_path):
    work = tmp_path / "paper"
    (work / "below").mkdir(parents=True)
    (work / "model.npz").symlink_to(run / "epoch_2.npz")
    (work / "below" / "model.npz").symlink_to(run / "epoch_3.npz")
    assert real(seen(run, work)) == {"model.npz": str(run / "epoch_2.npz")}
    assert seen(run, work, roots=[str(run)]) == []
    assert seen(run, tmp_path / "absent") == []


@pytest.mark.parametrize("text", ['"{run}/epoch_2.npz"', '["../run/epoch_2.npz"]'])
def test_resume_from_is_read_in_a_working_directory(run, tmp_path, text):
    work = tmp_path / "work"
    work.mkdir()
    (work / ".ckptd.toml").write_text(f"resume_from = {text.format(run=run)}\n")
    assert real(seen(run, work)) == {".ckptd.toml": str(run / "epoch_2.npz")}


@pytest.mark.parametrize("text", ["resume_from = ", "\udcff", "resume_from = '" + "x" * 20_000 + "'"])
def test_a_file_that_cannot_be_read_may_name_anything(run, tmp_path, text):
    work = tmp_path / "work"
    work.mkdir()
    (work / ".ckptd.toml").write_bytes(os.fsencode(text))
    assert seen(run, work) == [SeenLink(path=str(work / ".ckptd.toml"), target="")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_broken_file_of_somebody_else_names_nothing(run, tmp_path):
    (tmp_path / ".ckptd.toml").write_text("resume_from = ")
    os.chown(tmp_path / ".ckptd.toml", 54_321, -1)
    assert seen(run, tmp_path) == []


@pytest.mark.parametrize("value", ["3", "true", "[1, '']", "{a = 1}", "'" + "x" * 5000 + "'"])
def test_resume_from_that_is_no_path_names_nothing(run, tmp_path, value):
    (tmp_path / ".ckptd.toml").write_text(f"resume_from = {value}\n")
    assert [link for link in seen(run, tmp_path) if link.path.endswith("toml")] == []


def test_paths_that_jobs_name_are_looked_up(run, tmp_path):
    (tmp_path / "alias").symlink_to(run)
    paths = [
        f"{tmp_path}/alias/epoch_1.npz",
        str(run / "epoch_9.npz"),
        f"{run}/epoch_1.npz/x",
        "a\0b",
        "/" + "x" * 5000,
    ]
    answer = look_up_paths({"paths": paths, "work_dirs": [], "allowed_roots": ROOTS})
    assert answer == {"real": [str(run / "epoch_1.npz"), None, None, False, False], "links": []}


def test_links_survive_the_way_from_the_child(run):
    links = (SeenLink("/a\n\udcff", "/b", "/c", 1, 2, "d"), SeenLink("/a", ""))
    scan = Scan(directory=run, scanned_at=NOON, checkpoints=(), links=links)
    assert decode_scan(encode_scan(scan)).links == links
    broken = encode_scan(scan) | {"links": [["/a", "/" + "x" * 10_000, None, 0, 0, ""]]}
    with pytest.raises(ValueError, match="longer than any"):
        decode_scan(broken)
