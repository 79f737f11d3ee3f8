"""A scan that is given the fingerprint of an earlier one leaves nothing out."""

import os
import struct
import time
from pathlib import Path
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from ckptd.checkpoints.agent import scan_json
from ckptd.checkpoints.formats import FORMATS
from ckptd.checkpoints.scanning.scan_operation import scan
from support.examples import FACTOR
from support.known_rows import complete, encode_known

HOUR = 3600.0
NAMES = ("step_1.safetensors", "step_2.safetensors", "step_3.safetensors", "notes.txt", "model.tmp")
PLACES = ("", "sub")


def content(step):
    head = b'{"__metadata__":{"step":"%d"},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}' % step
    return struct.pack("<Q", len(head)) + head + bytes(16)


def ask(directory, now, *, known=(), fingerprint=None):
    return scan(
        {
            "directory": str(directory),
            "now": now,
            "known": encode_known(known, directory, os.getuid()),
            "fingerprint": fingerprint,
            "allowed_roots": ["/"],
            "work_dirs": [],
            "resuming_jobs": [],
            "candidates": [],
            "read_since": None,
            "results": None,
            "max_depth": 5,
            "max_entries": 1000,
            "write_grace_seconds": 60,
            "seconds": 60.0,
            "quota_command": [],
        }
    )


def look(directory, now, known=()):
    return complete(scan_json.decode_scan(ask(directory, now, known=known), len(known)), known)


def is_unchanged(directory, now, fingerprint):
    return ask(directory, now, fingerprint=fingerprint)["answer"] == "unchanged"


def write(path, age, step=1):
    path.parent.mkdir(exist_ok=True)
    if path.is_symlink() and not path.exists():  # it leads to itself, or to nothing
        path.unlink()
    path.write_bytes(content(step))
    os.utime(path, (time.time() - age,) * 2)


def overwrite_unseen(path, step):
    """Overwrite a file in place, and set its times back: only the change time of its inode tells."""
    if path.is_file():
        before = path.stat()
        path.write_bytes(content(step))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def by_path(found):
    """Return the checkpoints of a scan; their order depends on which of them had to be read."""
    return sorted(found.checkpoints, key=lambda each: each.path)


def settle(directory):
    """Let directories be as old as their files."""
    for each in (directory, *(path for path in directory.rglob("*") if path.is_dir() and not path.is_symlink())):
        os.utime(each, (time.time() - HOUR,) * 2)


def change(directory, kind, path, step):
    if kind == "write":
        write(path, HOUR, step)
    elif kind == "write-now":
        write(path, 0, step)
    elif kind == "overwrite":
        overwrite_unseen(path, step)
    elif kind == "damage" and path.is_file():
        path.write_bytes(path.read_bytes()[:40])
    elif kind == "remove":
        path.unlink(missing_ok=True)
    elif kind == "link" and path.parent.is_dir() and not path.is_symlink():
        path.unlink(missing_ok=True)
        path.symlink_to(directory / NAMES[0])


changes = st.lists(
    st.tuples(
        st.sampled_from(["none", "none", "write", "write-now", "overwrite", "damage", "remove", "link"]),
        st.sampled_from(PLACES),
        st.sampled_from(NAMES),
        st.integers(1, 3),
        st.booleans(),  # whether directories look old
        st.sampled_from([0.0, 100.0, HOUR]),  # how far time goes on
    ),
    min_size=2,
    max_size=8,
)


@hypothesis.given(changes)
@hypothesis.settings(max_examples=6 * FACTOR, deadline=None)
def test_what_is_said_to_be_unchanged_would_be_found_the_same(tmp_path_factory, planned):
    directory = tmp_path_factory.mktemp("tree")
    write(directory / NAMES[0], HOUR)
    settle(directory)
    now = time.time()
    last = look(directory, now)
    for kind, place, name, step, is_settled, later in planned:
        change(directory, kind, directory / place / name, step)
        if is_settled:
            settle(directory)
        now += later
        found = look(directory, now, last.checkpoints)
        if last.fingerprint is not None and is_unchanged(directory, now, last.fingerprint):
            assert (by_path(found), found.leftovers, found.markers, found.problems, found.links) == (
                by_path(last),
                last.leftovers,
                last.markers,
                last.problems,
                last.links,
            )
        last = found


def prepare(directory):
    for step in (1, 2):
        write(directory / f"step_{step}.safetensors", HOUR, step)
    settle(directory)
    return look(directory, time.time()).fingerprint


def test_a_settled_directory_has_a_fingerprint_and_keeps_it(tmp_path):
    fingerprint = prepare(tmp_path)
    assert fingerprint is not None
    assert is_unchanged(tmp_path, time.time() + 10 * HOUR, fingerprint)


@pytest.mark.parametrize("place", ["__pycache__/train.pyc", ".git/HEAD", "sub/env/pyvenv.cfg", "sub/env/lib/module.py"])
def test_packages_beside_checkpoints_are_left_out_of_a_fingerprint_too(tmp_path, place):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    if "env" in path.parts:
        write(tmp_path / "sub/env/pyvenv.cfg", HOUR)
    write(path, HOUR)
    fingerprint = prepare(tmp_path)
    assert fingerprint is not None
    assert is_unchanged(tmp_path, time.time(), fingerprint)
    write(tmp_path / "sub" / "step_9.safetensors", HOUR)
    assert not is_unchanged(tmp_path, time.time(), fingerprint)


def test_overwriting_in_place_is_seen_even_where_the_times_are_set_back(tmp_path):
    fingerprint = prepare(tmp_path)
    overwrite_unseen(tmp_path / "step_2.safetensors", 3)
    settle(tmp_path)
    assert not is_unchanged(tmp_path, time.time(), fingerprint)


def test_what_may_change_by_itself_has_no_fingerprint(tmp_path):
    for name, spoil in {
        "young": lambda directory: write(directory / "step_3.safetensors", 0),
        "damaged": lambda directory: change(directory, "damage", directory / "step_1.safetensors", 1),
        "linked": lambda directory: change(directory, "link", directory / "latest", 1),
        "temporary": lambda directory: write(directory / "step_3.safetensors.tmp", HOUR),
    }.items():
        directory = Path(tmp_path / name)
        directory.mkdir()
        prepare(directory)
        spoil(directory)
        for path in directory.iterdir():
            if name != "young" and not path.is_symlink():
                os.utime(path, (time.time() - HOUR,) * 2)
        settle(directory)
        assert look(directory, time.time()).fingerprint is None, name


def test_a_directory_in_which_a_format_could_not_be_searched_for_has_no_fingerprint(tmp_path, monkeypatch):
    """The next scan would call it read, and what that format has there would not be found."""
    assert prepare(tmp_path) is not None
    failing = mock.Mock(side_effect=OSError(5, "I/O error"))
    monkeypatch.setattr(type(FORMATS["safetensors"]), "claim", failing)
    seen = look(tmp_path, time.time())
    [problem] = seen.problems
    assert problem.reason == "could not be searched for safetensors: OSError: [Errno 5] I/O error"
    assert seen.fingerprint is None


def test_other_bounds_are_another_fingerprint(tmp_path):
    assert prepare(tmp_path) is not None
    item = {"max_depth": 4, "max_entries": 1000, "write_grace_seconds": 60, "quota_command": [], "allowed_roots": ["/"]}
    item |= {"directory": str(tmp_path), "now": time.time(), "known": [], "work_dirs": [], "resuming_jobs": []}
    item |= {"candidates": [], "read_since": None, "results": None}
    assert scan({**item, "fingerprint": look(tmp_path, time.time()).fingerprint}) == {"answer": "changed"}
