"""The short forms of what rows of checkpoints have."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.checkpoints.formats import roles
from ckptd.core.model import FileIdentity, Grouping, Level, RecordedCheckpoint, Role
from ckptd.core.rows import stored_checkpoints
from ckptd.core.rows.packed_details import pack_details, unpack_details
from ckptd.core.rows.packed_groupings import pack_grouping, unpack_grouping
from ckptd.core.rows.packed_members import pack_members, unpack_members
from ckptd.core.rows.stored_checkpoints import RowContext, checkpoint_from_row, checkpoint_to_row
from support.known_rows import list_content
from support.queue_facts import at, make_checkpoint

NUMBERS = st.integers(min_value=-(2**63), max_value=2**64)
IDENTITIES = st.lists(st.builds(FileIdentity, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=4)
INSTANTS = st.datetimes(min_value=datetime(1901, 1, 1), max_value=datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
NAMES = st.sampled_from(["", "step-5", "step-5.pt", "/", "a"])
FILES = st.lists(st.text(st.characters(), max_size=5) | NAMES.map(lambda name: f"{name}/x"), max_size=4)
EVIDENCE = st.text(max_size=9) | st.text(max_size=5).map(lambda word: f"the word `{word}` is beside the number")
PATHS = st.from_regex(r"[a#/]{0,2}(step|[0-9]{1,20}|[-#_.~]){0,6}", fullmatch=True)
GROUPINGS = st.builds(
    Grouping,
    series=PATHS,
    progress=st.lists(st.integers(), max_size=3).map(tuple),
    evidence=EVIDENCE,
    has_progress_word=st.booleans(),
    is_directory=st.booleans(),
    doubt=st.none() | st.text(min_size=1, max_size=9),
)
CONTEXT = RowContext("/data/run", 1000)
WRITTEN_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@given(NAMES, FILES, IDENTITIES, INSTANTS, NUMBERS)
def test_files_and_identities_come_back_as_they_were(name, files, identities, modified_at, size_bytes):
    identities = [each._replace(changed_ns=max(each.changed_ns, 0)) for each in identities]
    packed = pack_members(name, files, identities, modified_at, size_bytes)
    assert unpack_members(packed, name, modified_at, size_bytes) == (tuple(files), tuple(identities))


@given(GROUPINGS, PATHS)
def test_a_grouping_comes_back_as_it_was(grouping, path):
    packed = pack_grouping(grouping, path)
    assert (Grouping() if packed is None else unpack_grouping(packed, path)) == grouping


@given(PATHS, st.integers(min_value=0, max_value=2**8 - 1))
def test_a_series_that_follows_from_the_path_is_one_number(path, marked):
    numbers = re.split("([0-9]+)", path)
    chosen = [place for place in range(1, len(numbers), 2) if marked >> place // 2 & 1 and len(numbers[place]) < 18]
    series = "".join("#" if place in chosen else text for place, text in enumerate(numbers))
    grouping = Grouping(series=series, progress=tuple(int(numbers[place]) for place in chosen), evidence="x")
    packed = pack_grouping(grouping, path)
    assert unpack_grouping(packed, path) == grouping
    assert isinstance(packed[0], int) or "#" in path


@pytest.mark.parametrize("path", ["", "/x", "/data/run", "/data/run/a", "/data/runs/a", "/data/run/a/..b", "/data"])
@pytest.mark.parametrize("directory", ["/data/run", "/data", "job 7"])
def test_a_path_comes_back_as_it_was(path, directory):
    short = stored_checkpoints.shorten_path(path, directory)
    if path.startswith("/"):
        assert stored_checkpoints.complete_path(short, directory) == path


def come_back(checkpoint, context=CONTEXT):
    row = checkpoint_to_row(RecordedCheckpoint(checkpoint=checkpoint, first_seen_at=at(0)), context)
    return row, checkpoint_from_row(context, list_content(row))


USUAL = make_checkpoint(
    path=PurePosixPath("/data/run/checkpoints/step-00012000.pt"),
    files=("step-00012000.pt",),
    identities=(FileIdentity(65024, 6195174, 119, 1_767_323_045_678_901_234, 1_767_323_045_978_950_000),),
    size_bytes=119,
    modified_at=WRITTEN_AT,
    step=12000,
    name_step=12000,
    role=Role.STATE,
    role_evidence="holds the state of an optimizer",
    grouping=Grouping(
        series="checkpoints/step-#.pt",
        progress=(12000,),
        evidence="the word `step` is beside the number",
        has_progress_word=True,
    ),
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"owner_uids": frozenset()},
        {"owner_uids": frozenset({1000, 1001})},
        {"name_step": 11, "content_step": 12000, "content_epoch": 3.5, "goal_epoch": 90, "goal_step": 5},
        {"step": None, "name_step": None, "epoch": 2, "name_epoch": 2, "content_epoch": 3},
        {"is_best": False, "is_newest": True, "is_listed": False, "is_result": True, "level": Level.FULL},
        {"level": Level.LISTED, "role": Role.DATA, "role_evidence": "\udcff\x00 'state' \\", "unsafe": ("os.system",)},
        {"metrics": {"loss": 0.25}, "continued_count": 0, "continued_from_step": 7, "computation": "+a b"},
        {"reason": "torn", "grouping": Grouping(doubt="members differ"), "parts": (make_checkpoint("step-1.pt"),)},
        {"path": PurePosixPath("/data/run")},
        {"path": PurePosixPath("/elsewhere/step-1.pt")},
    ],
)
def test_every_field_comes_back_as_it_was(changes):
    checkpoint = replace(USUAL, **changes)
    assert come_back(checkpoint)[1] == checkpoint


def test_a_usual_checkpoint_of_one_file_is_short():
    row, _ = come_back(USUAL)
    assert row["path"] == "checkpoints/step-00012000.pt"
    assert len(row["members"]) <= 16
    assert len(row["details"]) <= 16
    assert (row["owner_uids"], row["unsafe"], row["reason"]) == (None, None, None)


def test_files_that_differ_in_a_number_take_few_bytes_each():
    files = tuple(f"step-12000/shard-{number:05}-of-00008.safetensors" for number in range(8))
    identities = tuple(FileIdentity(65024, 6195174 + number, 2**30, 10**18 + number * 10**9) for number in range(8))
    packed = pack_members("step-12000", files, identities, WRITTEN_AT, 2**33)
    assert len(packed) <= 8 * 14 + 40


EVIDENCE_TEXTS = sorted({each.evidence for each in vars(roles).values() if isinstance(each, roles.RoleEvidence)} - {""})


@pytest.mark.parametrize("text", EVIDENCE_TEXTS)
def test_what_shows_a_role_takes_few_bytes(text):
    packed = pack_details({"role_evidence": text})
    assert unpack_details(packed) == {"role_evidence": text}
    assert len(packed) <= 16


def test_details_of_a_newer_version_are_refused():
    with pytest.raises(ValueError, match="unknown dictionary 9"):
        unpack_details(b"\x09xyz")


def test_details_that_this_version_wrote_stay_readable():
    written = bytes.fromhex(WRITTEN_BY_VERSION_1)
    assert unpack_details(written) == {"name_step": "=", "role_evidence": "parameters only"}


WRITTEN_BY_VERSION_1 = "01ab26680446b40200"
