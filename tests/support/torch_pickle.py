"""Encodes values as torch.save does, by hand: a zip archive of a pickle, whose opcodes import nothing here."""

import struct
import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Tensor:
    """A tensor of float32 in a pickle of torch; all its elements are `value`."""

    shape: tuple[int, ...] = (2, 2)
    value: float = 0.5

    @property
    def count(self):
        count = 1
        for side in self.shape:
            count *= side
        return count

    @property
    def data(self):
        return struct.pack(f"<{self.count}f", *[self.value] * self.count)


@dataclass(frozen=True)
class Instance:
    """An object of a class that is imported by name, with its attributes."""

    module: str
    name: str
    attributes: tuple[tuple[str, object], ...] = ()


class OrderedState(dict):
    """A dictionary that is pickled as collections.OrderedDict, as every state_dict is."""


class Opcodes:
    """Writes a pickle of protocol 2 without importing what it names."""

    def __init__(self):
        self.out = bytearray(b"\x80\x02")
        self.storages = []

    def write(self, value):
        WRITERS[type(value)](self, value)
        return self

    def put(self, opcode):
        self.out += opcode

    def sequence(self, values, *, begin, end):
        self.out += begin
        for value in values:
            self.write(value)
        self.out += end

    def items(self, value, *, begin):
        self.out += begin + b"("
        for key, item in value.items():
            self.write(key).write(item)
        self.out += b"u"

    def instance(self, value):
        self.out += f"c{value.module}\n{value.name}\n".encode() + b")\x81"
        self.write(dict(value.attributes))
        self.out += b"b"

    def tensor(self, value):
        key = str(len(self.storages))
        self.storages.append(value.data)
        strides = tuple(Tensor(value.shape[at + 1 :]).count for at in range(len(value.shape)))
        self.out += b"ctorch._utils\n_rebuild_tensor_v2\n((" + _text("storage") + b"ctorch\nFloatStorage\n"
        self.write(key).write("cpu").write(value.count)
        self.out += b"tQ"
        self.write(0).write(value.shape).write(strides).write(False)
        self.out += b"ccollections\nOrderedDict\n)RtR"


def _text(value):
    text = value.encode()
    return b"X" + struct.pack("<I", len(text)) + text


def _int(value):
    if abs(value) < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


WRITERS = {
    type(None): lambda out, _: out.put(b"N"),
    bool: lambda out, value: out.put(b"\x88" if value else b"\x89"),
    int: lambda out, value: out.put(_int(value)),
    float: lambda out, value: out.put(b"G" + struct.pack(">d", value)),
    str: lambda out, value: out.put(_text(value)),
    tuple: lambda out, values: out.sequence(values, begin=b"(", end=b"t"),
    list: lambda out, values: out.sequence(values, begin=b"](", end=b"e"),
    dict: lambda out, value: out.items(value, begin=b"}"),
    OrderedState: lambda out, value: out.items(value, begin=b"ccollections\nOrderedDict\n)R"),
    Instance: Opcodes.instance,
    Tensor: Opcodes.tensor,
}


def torch_file(value, stem="archive"):
    """What torch.save(value) writes into a file of that stem."""
    opcodes = Opcodes().write(value)
    entries = {
        f"{stem}/data.pkl": bytes(opcodes.out + b"."),
        f"{stem}/byteorder": b"little",
        **{f"{stem}/data/{key}": data for key, data in enumerate(opcodes.storages)},
        f"{stem}/version": b"3\n",
        f"{stem}/.data/serialization_id": b"0" * 40,
    }
    return stored_zip(entries)


def stored_zip(entries):
    """A zip archive of uncompressed entries, always the same for the same entries."""
    out, directory = bytearray(), bytearray()
    for name, data in entries.items():
        text = name.encode()
        fields = (20, 0, 0, 0, 33, zlib.crc32(data), len(data), len(data), len(text), 0)  # 33: 1980-01-01
        header_at = len(out)
        out += struct.pack("<4s5H3L2H", b"PK\x03\x04", *fields) + text + data
        directory += struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *fields, 0, 0, 0, 0, header_at) + text
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, len(entries), len(entries), len(directory), len(out), 0)
    return bytes(out + directory + end)
