import builtins
import collections
import contextlib
import datetime as dt
import io
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.checkpoints.formats.encodings.pickle_machine import PickleLimits
from ckptd.checkpoints.formats.encodings.pickle_reader import read_pickle
from ckptd.checkpoints.formats.encodings.pickle_values import Elided, Opaque, Persistent
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(value=plain, protocol=st.integers(0, 5))
def test_plain_values_come_back_as_they_were(value, protocol):
    assert read_pickle(pickle.dumps(value, protocol)).value == value


@given(value=plain, protocol=st.integers(0, 5), data=st.data())
def test_a_pickle_cut_anywhere_is_damaged(value, protocol, data):
    whole = pickle.dumps(value, protocol)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(DamagedError):
        read_pickle(cut)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_reason(data):
    try:
        read_pickle(data)
    except (DamagedError, TooLargeError) as error:
        assert str(error)  # noqa: PT017


@pytest.mark.parametrize("protocol", range(6))
def test_framework_containers_become_plain_ones(protocol):
    value = {
        "ordered": collections.OrderedDict(epoch=3),
        "default": collections.defaultdict(list, a=[1]),
        "set": {4},
        "bytes": b"\xff\x00",
        "complex": 1 + 2j,
        "when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    }
    found = read_pickle(pickle.dumps(value, protocol))
    assert found.value["ordered"] == {"epoch": 3}
    assert found.value["default"] == {"a": [1]}
    assert found.value["set"] == [4]
    assert found.value["bytes"] == b"\xff\x00"
    assert isinstance(found.value["when"], Opaque)
    assert found.unsafe == ()


class Calls:
    def __init__(self, called, *args):
        self.reduction = (called, args)

    def __reduce__(self):
        return self.reduction


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("called", [os.system, builtins.eval, builtins.exec, getattr, os.popen, __import__])
def test_a_callable_of_the_system_is_listed_and_not_called(called, protocol, tmp_path):
    victim = tmp_path / "touched"
    found = read_pickle(pickle.dumps({"epoch": 4, "x": Calls(called, f"touch {victim}")}, protocol))
    assert len(found.unsafe) == 1
    assert found.unsafe[0].endswith(called.__name__)
    assert found.value["epoch"] == 4
    assert not victim.exists()


@pytest.mark.parametrize(
    ("data", "unsafe"),
    [
        (b"(S'echo'\nios\nsystem\n.", ("os.system",)),
        (b"(cos\nsystem\nS'echo'\no.", ("os.system",)),
        (b"\x80\x04\x8c\x05torch\x8c\x17serialization.os.system\x93.", ("torch.serialization.os.system",)),
        (b"\x82\x07.", ("copyreg.extension.7",)),
        (b"ccollections\nOrderedDict\n(tR.", ()),
        (b"cmyproject.models\nNet\n)\x81.", ()),
        (b"cmyproject.models\nrun\n)R.", ("myproject.models.run",)),
        (b"cmyproject.models\nNet\n)R)R.", ("what myproject.models.Net returns",)),
        (b"csubprocess\nPopen\n)R.", ("subprocess.Popen",)),
        (b"ctorch\nload\n.", ("torch.load",)),
    ],
)
def test_names_are_judged_wherever_they_stand(data, unsafe):
    assert read_pickle(data).unsafe == unsafe


GETATTR = b"c__builtin__\ngetattr\n"
MEMBER = b"(ctransformers.trainer_utils\nIntervalStrategy\nX\x05\x00\x00\x00STEPSt"


def test_a_member_of_an_enumeration_as_python_311_pickles_it_is_harmless():
    found = read_pickle(GETATTR + b"q\x00" + MEMBER + b"R0h\x00" + MEMBER + b"R.")
    assert found.unsafe == ()
    assert "transformers.trainer_utils.IntervalStrategy.STEPS" in found.globals


@pytest.mark.parametrize(
    ("data", "unsafe"),
    [
        (GETATTR + b"(cos\nX\nX\x06\x00\x00\x00systemtR.", ("os.X", "os.X.system")),
        (GETATTR + b"(ctorch\nNet\nX\x04\x00\x00\x00loadtR.", ("torch.Net.load",)),
        (GETATTR + b"(ctorch\nNet\nX\x0b\x00\x00\x00__globals__tR.", ("torch.Net.__globals__",)),
        (GETATTR + b"(X\x01\x00\x00\x00aX\x04\x00\x00\x00jointR.", ("__builtin__.getattr",)),
        (b"cmyproject\nNet\n(" + GETATTR + b"tR.", ("__builtin__.getattr",)),
        (GETATTR + b"q\x00" + MEMBER + b"R0cmyproject\nNet\n(h\x00tR.", ("__builtin__.getattr",)),
        (GETATTR + b"2" + MEMBER + b"R.", ("__builtin__.getattr",)),
    ],
)
def test_any_other_attribute_is_unsafe(data, unsafe):
    assert read_pickle(data).unsafe == unsafe


def test_user_objects_keep_their_attributes():
    found = read_pickle(b"cmyproject\nState\n)\x81}X\x05\x00\x00\x00epochK\x07sb.").value
    assert (found.full_name, found.attributes) == ("myproject.State", {"epoch": 7})


def test_persistent_ids_are_recorded():
    found = read_pickle(b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000tQ.")
    assert isinstance(found.value, Persistent)
    assert found.persistent_ids[0][0] == "storage"
    assert found.persistent_ids[0][1].full_name == "torch.FloatStorage"


def test_numpy_scalars_become_numbers():
    value = {"a": np.float32(0.5), "b": np.int64(-3), "c": np.bool_(True)}
    for protocol in range(6):
        assert read_pickle(pickle.dumps(value, protocol)).value == {"a": 0.5, "b": -3, "c": True}


def test_long_bytes_are_stepped_over_and_bounded_by_the_file():
    data = pickle.dumps({"epoch": 2, "blob": bytes(1 << 20)}, 4)
    found = read_pickle(data)
    assert found.value["epoch"] == 2
    assert isinstance(found.value["blob"], Elided)
    with pytest.raises(DamagedError):
        read_pickle(data[: 1 << 19])
    with pytest.raises(DamagedError):
        read_pickle(io.BytesIO(b"\x8e" + struct.pack("<Q", 1 << 62) + b"abc"))


def test_bytes_behind_the_end_are_left_alone():
    first = pickle.dumps(1)
    assert read_pickle(first + b"rest").end == len(first)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        b"\x80\x02K\x05r\xf0\xff\xff\x7f.",
        b"\x80\x02]q\x00" + b"".join(b"](" + b"h%c" % i * 10 + b"eq%c" % (i + 1) for i in range(29)) + b".",
        b"\x80\x02K\x01" + b"\x85" * 100_000 + b"K\x01s.",
        b"\x80\x02}K\x01" + b"\x85" * 100_000 + b"K\x01s.",
    ],
    ids=["deep lists", "huge memo index", "multiplying lists", "deep tuples", "a deep tuple as key"],
)
def test_hostile_shapes_cost_nothing(data):
    with contextlib.suppress(DamagedError):
        read_pickle(data)


def test_too_many_opcodes_are_refused():
    with pytest.raises(TooLargeError):
        read_pickle(b"N0" * 1000 + b"N.", limits=PickleLimits(cost=100))


def test_copies_are_charged():
    data = b"(" + b"N" * 1000 + b"tp1\n0" + b"c__builtin__\nlist\n(g1\ntR" * 100 + b"."
    with pytest.raises(TooLargeError):
        read_pickle(data, limits=PickleLimits(cost=50_000))
