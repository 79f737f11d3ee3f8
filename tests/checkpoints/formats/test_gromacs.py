import struct

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState

NATOMS_AT = 0x6C


@pytest.fixture
def state(tmp_path):
    return copy_real("gromacs/state_step6700.cpt", tmp_path).rename(tmp_path / "state.cpt")


def reason_for(path, content):
    path.write_bytes(content)
    found = recognise(path.parent)[path.name]
    assert found.state is CheckpointState.DAMAGED
    return found.reason


def flipped(content, offset):
    return content[:offset] + bytes([content[offset] ^ 0xFF]) + content[offset + 1 :]


def test_step_and_time_come_from_the_header(state):
    found = recognise(state.parent)["state.cpt"]
    assert (found.step, found.name_step, found.metrics["time_ps"]) == (6700, None, pytest.approx(13.4))


def test_the_simulation_part_says_how_often_it_was_continued(state):
    content = state.read_bytes()
    assert recognise(state.parent)["state.cpt"].continued_count == 0
    assert content.count(struct.pack(">iq", 1, 6700)) == 1
    state.write_bytes(content.replace(struct.pack(">iq", 1, 6700), struct.pack(">iq", 3, 6700)))
    assert recognise(state.parent)["state.cpt"].continued_count == 2


@pytest.mark.parametrize(("name", "count", "step"), [("noappend", 1, 40), ("append", 1, None), (".", 0, None)])
def test_its_energies_tell_from_which_step_it_was_continued_unless_it_appends(tmp_path, name, count, step):
    copy_real(f"gromacs/{name}/state.cpt" if name != "." else "gromacs/state_step6700.cpt", tmp_path)
    [found] = recognise(tmp_path).values()
    assert (found.state, found.continued_count, found.continued_from_step) == (CheckpointState.COMPLETE, count, step)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: flipped(content, 1), "begins with"),
        (lambda content: flipped(content, 7), "a text of"),
        (lambda content: flipped(content, content.index(b"vm") - 11), "version 16711702 does not exist"),
        (lambda content: content[:-1], "closing number"),
        (lambda content: content[:-1024], "closing number"),
        (lambda content: content[:40], "only 0 are left"),
        (lambda content: bytes(len(content)), "begins with 0"),
        (lambda content: content[:2000] + bytes(len(content) - 2000), "closing number"),
    ],
)
def test_damage_is_found(state, damage, words):
    assert words in reason_for(state, damage(state.read_bytes()))


def test_more_coordinates_than_atoms_do_not_fit(state):
    content = state.read_bytes()
    at = content.index(struct.pack(">i", 621))
    assert "for 622 atoms" in reason_for(state, content[:at] + struct.pack(">i", 622) + content[at + 4 :])


def test_an_impossible_number_of_coordinates_is_not_read(state):
    content = state.read_bytes()
    at = content.index(struct.pack(">ii", 621 * 3, 1))
    changed = content.replace(struct.pack(">i", 621), struct.pack(">i", 2**29))
    assert "declared" in reason_for(state, changed[:at] + struct.pack(">i", 3 * 2**29) + changed[at + 4 :])
