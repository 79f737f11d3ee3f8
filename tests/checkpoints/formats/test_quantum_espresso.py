import h5py
import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

XML = "data-file-schema.xml"


@pytest.fixture
def save(tmp_path):
    return copy_real("quantum-espresso/h2.save", tmp_path)


def reason_of(save, level=Level.STRUCTURE):
    found = recognise(save.parent, level)["h2.save"]
    assert found.state is CheckpointState.DAMAGED
    return found.reason


def edit(file, old, new):
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new))


@pytest.mark.parametrize("name", [XML, "charge-density.dat", "wfc1.dat", "H.pz-vbc.UPF"])
def test_every_file_is_needed_whole(save, name):
    content = (save / name).read_bytes()
    for size in (0, len(content) // 2, len(content) - 2):
        (save / name).write_bytes(content[:size])
        assert name in reason_of(save)
    (save / name).unlink()
    assert name in reason_of(save)


def test_zeros_are_found(save):
    for name in (XML, "charge-density.dat", "wfc1.dat", "H.pz-vbc.UPF"):
        content = (save / name).read_bytes()
        (save / name).write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))
        assert name in reason_of(save)
        (save / name).write_bytes(content)
    assert recognise(save.parent)["h2.save"].state is CheckpointState.COMPLETE


def test_every_k_point_and_spin_has_its_wave_function(save):
    edit(save / XML, b"<nks>1</nks>", b"<nks>999999999</nks>")
    assert reason_of(save).startswith("wfc2.dat, wfc3.dat")
    edit(save / XML, b"<nks>999999999</nks>", b"<nks>1</nks>")
    edit(save / XML, b"<lsda>false", b"<lsda>true")
    assert reason_of(save) == "wfcup1.dat, wfcdw1.dat missing, which the XML names"


def test_wave_functions_that_were_not_collected_are_not_missed(save):
    (save / "wfc1.dat").unlink()
    edit(save / XML, b"<wf_collected>true", b"<wf_collected>false")
    assert recognise(save.parent)["h2.save"].state is CheckpointState.COMPLETE


def test_hdf5_takes_the_place_of_records(save):
    for name in ("wfc1", "charge-density"):
        (save / f"{name}.dat").unlink()
        with h5py.File(save / f"{name}.hdf5", "w") as file:
            file["evc"] = [1.0] * 100
    assert recognise(save.parent)["h2.save"].state is CheckpointState.COMPLETE
    content = (save / "wfc1.hdf5").read_bytes()
    (save / "wfc1.hdf5").write_bytes(content[:-50])
    assert "wfc1.hdf5" in reason_of(save)


def test_xml_is_parsed_at_level_full_and_may_declare_nothing(save):
    edit(save / XML, b"<nprocs>1</nprocs>", b"<nprocs>1<nprocs>")
    assert recognise(save.parent)["h2.save"].state is CheckpointState.COMPLETE
    assert "XML is damaged" in reason_of(save, Level.FULL)
    edit(save / XML, b"<qes:espresso ", b'<!DOCTYPE a [<!ENTITY b "c">]><qes:espresso ')
    assert "declares entities" in reason_of(save, Level.FULL)


@pytest.mark.parametrize("name", [XML, "charge-density.dat", "wfc1.dat", "H.pz-vbc.UPF"])
@pytest.mark.parametrize(
    "content",
    [bytes(4096), b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", b"<html>403</html>\n"],
)
def test_zeros_pointers_and_pages_in_place_of_a_file_are_damage(save, name, content):
    (save / name).write_bytes(content)
    assert name in reason_of(save)
