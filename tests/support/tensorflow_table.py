"""Writes TensorFlow's bundles: an index, which is a table of LevelDB's, and the shards that it names."""

import google_crc32c


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def masked(data):
    crc = google_crc32c.value(data)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def block(rows, kind=0):
    body = b"".join(varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in rows)
    body += (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    return body + bytes([kind]) + masked(body + bytes([kind]))


def table(rows, kind=0):
    """Write a table as LevelDB does, with one data block."""
    data, metaindex = block(rows, kind), block([])
    index = block([(b"~", varint(0) + varint(len(data) - 5))])
    footer = b"".join(map(varint, (len(data), len(metaindex) - 5, len(data) + len(metaindex), len(index) - 5)))
    return data + metaindex + index + footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


def entry(*, dtype=9, shard=0, offset=0, size=8, crc=0, shape=b""):
    fields = (b"\x08", dtype), (b"\x18", shard), (b"\x20", offset), (b"\x28", size)
    numbers = b"".join(tag + varint(value) for tag, value in fields)
    return b"\x12" + varint(len(shape)) + shape + numbers + b"\x35" + crc.to_bytes(4, "little")


def make_set(step, member_count):
    """Return the files of one checkpoint of so many members: an index and shards, whose first holds the step."""
    shard_count = member_count - 1
    value = step.to_bytes(8, "little")
    rows = [(b"global_step", entry(crc=int.from_bytes(masked(value), "little")))]
    files = {f"ckpt-{step}.index": table([(b"", b"\x08" + varint(shard_count)), *rows])}
    for shard in range(shard_count):
        data = value if shard == 0 else b"shard %d of step %d" % (shard, step)
        files[f"ckpt-{step}.data-{shard:05d}-of-{shard_count:05d}"] = data
    return files
