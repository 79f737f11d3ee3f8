"""The packed columns keep their form: rows on record were written in it, and migration 0034 writes it, too.

Whoever changes a form writes a migration that converts these columns, and copies what migration 0034 imports into it.
"""

from datetime import UTC, datetime
from hashlib import sha256

from ckptd.core.model import FileIdentity, Grouping
from ckptd.core.rows import usual_texts
from ckptd.core.rows.packed_details import pack_details, unpack_details
from ckptd.core.rows.packed_groupings import pack_grouping
from ckptd.core.rows.packed_members import pack_members
from ckptd.core.rows.stored_checkpoints import key_of_path

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_members():
    identities = [FileIdentity(65024, 12, 10, 1_767_323_045_000_000_007, 0), FileIdentity(65024, 13, 20, 5, 9)]
    packed = pack_members("step-5", ["step-5/a.pt", "step-5/b.pt"], identities, AT, 30)
    assert packed.hex() == "0980f80718090e0000021483c8b1c9c3bce58631090600052f612e707407030162"


def test_groupings():
    grouping = Grouping(series="step-#.pt", progress=(6,), evidence="the word `step` is beside the number")
    assert pack_grouping(grouping, "step-6.pt") == (1, ("step",))


def test_details():
    assert unpack_details(bytes.fromhex("01ab464fc658b292696d2d00")) == {"is_best": True, "metrics": {"loss": 0.5}}
    assert pack_details({}) is None


def test_the_dictionary():
    assert (
        sha256(usual_texts._DICTIONARY).hexdigest()
        == "95a427a4f87090d6985c51c53a2f1c596ac5a76b2b953e47a4de0d0be2c4b97a"
    )


def test_keys_of_paths():
    assert key_of_path("step-6.pt") == 362624089
