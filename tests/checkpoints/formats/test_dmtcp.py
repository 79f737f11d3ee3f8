import gzip
from datetime import timedelta

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

SCRIPT = "dmtcp_restart_script_1a2b-40000-65f0c0de.sh"
PLAIN = "ckpt_plain_1a2b-42000-65f0c0e0.dmtcp"
IMAGES = ["ckpt_solver_1a2b-40000-65f0c0de.dmtcp", "ckpt_solver_1a2b-41000-65f0c0df.dmtcp"]
PAGE = 4096


@pytest.fixture
def run(tmp_path):
    return copy_real("dmtcp", tmp_path)


def test_the_images_of_a_script_are_one_checkpoint(run):
    (run / "dmtcp_restart_script.sh").symlink_to(SCRIPT)
    found = recognise(run, Level.FULL)
    assert sorted(found) == [PLAIN, SCRIPT]
    assert found[SCRIPT].files == (SCRIPT, *IMAGES)
    assert (found[SCRIPT].state, found[SCRIPT].is_newest) == (CheckpointState.COMPLETE, True)


def test_the_ids_of_the_processes_say_which_computation_it_is(run):
    found = recognise(run)
    assert found[SCRIPT].computation == "1a2b-40000-65f0c0de 1a2b-41000-65f0c0df"
    (run / PLAIN).rename(run / "ckpt_plain_1a2b-42000-65f0c0e0_00002.dmtcp")  # a build with unique names counts them
    assert recognise(run)["ckpt_plain_1a2b-42000-65f0c0e0_00002.dmtcp"].computation == "1a2b-42000-65f0c0e0"


def test_a_missing_image_is_damage(run):
    (run / IMAGES[1]).unlink()
    found = recognise(run)[SCRIPT]
    assert (found.state, found.reason) == (
        CheckpointState.DAMAGED,
        "1 of 2 images that the script restarts are missing",
    )


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_a_damaged_image_is_named(run, level):
    image = run / IMAGES[0]
    whole = image.read_bytes()
    for content in (b"", bytes(len(whole)), whole[: len(whole) // 2], whole[:-8] + bytes(8), b"text\n" * 99):
        image.write_bytes(content)
        found = recognise(run, level)[SCRIPT]
        assert found.state is CheckpointState.DAMAGED
        assert found.reason.startswith(IMAGES[0])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda whole: whole[:-PAGE], "ends within the memory"),
        (lambda whole: whole[: 5 * PAGE], "ends within the memory"),
        (lambda whole: whole[:PAGE], "within its headers"),
        (lambda whole: whole + bytes(PAGE), "ends within the memory"),
        (lambda whole: b"X" + whole[1:], "does not begin"),
        (lambda whole: whole[:PAGE] + b"X" + whole[PAGE + 1 :], "headers of the image differ"),
        (lambda whole: whole[: 2 * PAGE] + b"\x01" + whole[2 * PAGE + 1 :], "descriptor of memory should be"),
        (lambda whole: whole[: 3 * PAGE] + bytes(len(whole) - 3 * PAGE), "ends within the memory"),
        (lambda whole: whole[: 2 * PAGE] + bytes(2 * PAGE), "goes on behind"),
    ],
)
def test_descriptors_are_followed_in_a_plain_image(run, damage, words):
    image = run / PLAIN
    image.write_bytes(damage(image.read_bytes()))
    found = recognise(run)[PLAIN]
    assert found.state is CheckpointState.DAMAGED
    assert words in found.reason


def test_a_temporary_image_is_being_written_while_it_is_fresh(run):
    (run / PLAIN).rename(run / f"{PLAIN}.temp")
    (run / f"{PLAIN}.temp").touch()
    assert recognise(run, after=timedelta(0))[f"{PLAIN}.temp"].state is CheckpointState.WRITING
    assert "was not finished" in recognise(run)[f"{PLAIN}.temp"].reason


def test_a_plain_image_of_dmtcp_2_and_3_has_another_layout_and_is_unknown(run):
    image = run / "ckpt_plain_1a2b-42000-65f0c0e0.dmtcp"
    image.write_bytes(image.read_bytes().replace(b"_v4.0", b"_v2.0", 1))
    found = recognise(run)[image.name]
    assert found.state is CheckpointState.UNKNOWN
    assert "version 2" in found.reason


def test_a_compressed_image_of_every_version_is_whole_when_its_stream_is(run):
    image = run / "ckpt_plain_1a2b-42000-65f0c0e0.dmtcp"
    whole = gzip.compress(image.read_bytes().replace(b"_v4.0", b"_v2.0"))
    image.write_bytes(whole)
    assert recognise(run)[image.name].state is CheckpointState.COMPLETE
    image.write_bytes(whole[:-9])
    assert recognise(run)[image.name].state is CheckpointState.DAMAGED


def test_descriptors_may_follow_the_first_header(run):
    image = run / "ckpt_plain_1a2b-42000-65f0c0e0.dmtcp"
    whole = image.read_bytes()
    image.write_bytes(whole[:PAGE] + whole[2 * PAGE :])
    assert recognise(run)[image.name].state is CheckpointState.COMPLETE
    image.write_bytes(whole[:PAGE] + whole[2 * PAGE : -PAGE])
    assert recognise(run)[image.name].state is CheckpointState.DAMAGED
