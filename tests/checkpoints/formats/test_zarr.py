import io
import json
import struct

import google_crc32c
import pytest
import zstandard

from ckptd.checkpoints.formats.encodings import zarr
from ckptd.checkpoints.formats.interface import DamagedError

RAW = bytes(range(64))
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC32C = {"name": "crc32c"}


def v3(*codecs, shape=(4, 4), chunks=(4, 4)):
    return zarr.parse_metadata(
        json.dumps(
            {
                "zarr_format": 3,
                "node_type": "array",
                "shape": shape,
                "data_type": "float32",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
                "chunk_key_encoding": {"name": "default"},
                "codecs": codecs,
            }
        ).encode()
    )


def v2(compressor=None, shape=(4, 4), chunks=(4, 4), dtype="<f4"):
    document = {"shape": shape, "chunks": chunks, "dtype": dtype, "compressor": compressor, "zarr_format": 2}
    return zarr.parse_metadata(json.dumps(document).encode())


def with_crc(data):
    return data + google_crc32c.value(data).to_bytes(4, "little")


def shard(pieces, checksum=True):
    index, body = b"", b""
    for piece in pieces:
        index += struct.pack("<QQ", len(body), len(piece)) if piece is not None else b"\xff" * 16
        body += piece or b""
    return body + (with_crc(index) if checksum else index)


SHARDING = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [2, 4],
        "codecs": [BYTES, {"name": "zstd", "configuration": {"level": 1}}],
        "index_codecs": [BYTES, CRC32C],
    },
}


def check(array, data):
    zarr.check_chunk(array, io.BytesIO(b"front" + data), 5, len(data))


def compress(data):
    return zstandard.ZstdCompressor().compress(data)


HALVES = [compress(RAW[:32]), compress(RAW[32:])]


@pytest.mark.parametrize(
    ("array", "good", "bad"),
    [
        (v2(), RAW, RAW[:-1]),
        (v2({"id": "zstd"}), compress(RAW), compress(RAW[:-1])),
        (v2({"id": "zstd"}), compress(RAW), bytes(40)),
        (
            v2({"id": "blosc"}),
            struct.pack("<4B3I", 2, 1, 1, 4, 64, 64, 16),
            struct.pack("<4B3I", 2, 1, 1, 4, 64, 64, 9),
        ),
        (v3(BYTES, CRC32C), with_crc(RAW), with_crc(RAW)[:-1] + b"!"),
        (v3(BYTES, CRC32C), with_crc(RAW), RAW),
        (v3(SHARDING), shard(HALVES), shard([HALVES[0], HALVES[1][:-3]])),
        (v3(SHARDING), shard([HALVES[0], None]), shard(HALVES)[:-1] + b"!"),
        (v3(SHARDING), shard([None, None]), shard(HALVES)[-20:]),
    ],
)
def test_a_chunk_must_decode_to_its_size(array, good, bad):
    check(array, good)
    with pytest.raises(DamagedError):
        check(array, bad)


@pytest.mark.parametrize(
    ("array", "keys"),
    [
        (v2(shape=(5, 4), chunks=(4, 4)), ["0.0", "1.0"]),
        (v2(shape=(), chunks=()), ["0"]),
        (v2(shape=(2, 1, 3), chunks=(1, 1, 2)), ["0.0.0", "0.0.1", "1.0.0", "1.0.1"]),
        (v2(shape=(0, 9), chunks=(4, 4)), []),
        (v2(shape=(0,), chunks=(4,)), []),
        (v3(BYTES, shape=(4, 5)), ["c/0/0", "c/0/1"]),
        (v3(BYTES, shape=(), chunks=()), ["c"]),
    ],
)
def test_the_grid_names_its_chunks(array, keys):
    assert list(array.chunk_keys()) == keys


def test_a_huge_grid_is_named_one_by_one():
    assert next(v2(shape=(2**60, 2**60), chunks=(1, 1)).chunk_keys()) == "0.0"


@pytest.mark.parametrize("dtype", ["<i8", ">i4", "<f4", "|u1"])
def test_an_array_of_one_number_is_read(dtype):
    array = v2(shape=(), chunks=(), dtype=dtype)
    code = {"<i8": "<q", ">i4": ">i", "<f4": "<f", "|u1": "<B"}[dtype]
    assert zarr.read_scalar(array, struct.pack(code, 40)) == 40


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"null", b'{"zarr_format":3,"shape":1}', b'{"shape":[-1],"chunks":[1],"dtype":"<f4"}']
)
def test_metadata_that_say_nothing_are_damage(text):
    with pytest.raises(DamagedError):
        zarr.parse_metadata(text)


@pytest.mark.parametrize(
    ("array", "chunk"),
    [
        (v2(), RAW),
        (v2(dtype="<U3", shape=(4,), chunks=(4,)), bytes(48)),
        (v2(dtype="|b1", shape=(3,), chunks=(3,)), b"\1\0\1"),
        (v2({"id": "zstd"}), zstandard.compress(RAW)),
        (v2({"id": "gzip"}), b"\x1f\x8b\x08 and more"),
        (v2({"id": "lz4"}), b"what nobody reads here"),
        (v3(BYTES), RAW),
        (v3(BYTES, CRC32C), with_crc(RAW)),
        (v3(BYTES, {"name": "zstd"}, CRC32C), with_crc(zstandard.compress(RAW))),
    ],
)
def test_the_beginning_and_size_of_a_chunk_fit_its_codecs(array, chunk):
    zarr.check_beginning(array, chunk[: zarr.HEAD_BYTES], len(chunk))


@pytest.mark.parametrize(
    ("array", "chunk"),
    [
        (v2(), RAW[:-1]),
        (v2(), RAW + b"\0"),
        (v2({"id": "zstd"}), bytes(40)),
        (v2({"id": "blosc"}), bytes(40)),
        (v2({"id": "gzip"}), b"<html>"),
        (v3(BYTES, CRC32C), RAW),
        (v3(BYTES, {"name": "zstd"}, CRC32C), bytes(40)),
    ],
)
def test_a_chunk_that_its_codecs_cannot_have_written_is_damage(array, chunk):
    with pytest.raises(DamagedError):
        zarr.check_beginning(array, chunk[: zarr.HEAD_BYTES], len(chunk))
