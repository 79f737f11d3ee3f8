"""The word `byteorder` in an archive of torch.save: torch 2.1 and newer write it, and torch.load refuses others."""

import io
import zipfile

import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState
from support.torch_pickle import Tensor, torch_file

STEP = 258.0  # in a tensor, whose bytes are swapped in the test where torch would write the other order


def archive(word):
    """Return a state whose byte order is the word; without that entry where it is None."""
    source, written = io.BytesIO(torch_file({"step": Tensor((), STEP)})), io.BytesIO()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(written, "w") as new:
        for entry in old.infolist():
            if not entry.filename.endswith("/byteorder"):
                content = old.read(entry)
                if word == b"big" and "/data/" in entry.filename:
                    content = content[::-1]
                new.writestr(entry.filename, content)
        if word is not None:
            prefix = old.namelist()[0].partition("/")[0]
            new.writestr(f"{prefix}/byteorder", word)
    return written.getvalue()


@pytest.mark.parametrize("word", [b"little", b"big", None])
def test_both_byte_orders_and_none_are_read(word, tmp_path):
    (tmp_path / "epoch_2.pt").write_bytes(archive(word))
    found = recognise(tmp_path)["epoch_2.pt"]
    assert (found.state, found.reason, found.step) == (CheckpointState.COMPLETE, None, STEP)


@pytest.mark.parametrize("word", [b"", b"lit", bytes(6), b"littleendian", b"\x00littl"])
def test_another_word_is_damage(word, tmp_path):
    (tmp_path / "epoch_2.pt").write_bytes(archive(word))
    found = recognise(tmp_path)["epoch_2.pt"]
    assert found.state is CheckpointState.DAMAGED
    assert "byteorder" in found.reason
