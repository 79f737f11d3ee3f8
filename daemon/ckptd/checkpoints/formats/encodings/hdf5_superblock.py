"""The first bytes of an HDF5 file: enough to tell a whole file from a cut-off one before any library parses it.

Source: HDF5 File Format Specification 3.0, II.A. A superblock lies at 0, 512, 1024, 2048 and so on, because a user
block such as MATLAB's may come before it. The end-of-file address counts from the beginning of the file.
"""

from dataclasses import dataclass
from typing import BinaryIO

from ckptd.checkpoints.formats.encodings import jenkins
from ckptd.checkpoints.formats.interface import DamagedError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_FIRST_USER_BLOCK = 512
_OPEN_FOR_WRITING = 0x01
_ADDRESS_SIZES = frozenset({2, 4, 8, 16, 32})


@dataclass(frozen=True, slots=True)
class Superblock:
    """Where the file's data begin and end, in bytes from its beginning."""

    version: int
    offset: int
    end_of_file: int


def find_signature(file: BinaryIO, size_bytes: int) -> int | None:
    """Return where the superblock lies, None where there is none."""
    offset = 0
    while offset + len(SIGNATURE) <= size_bytes:
        file.seek(offset)
        if file.read(len(SIGNATURE)) == SIGNATURE:
            return offset
        offset = offset * 2 or _FIRST_USER_BLOCK
    return None


def check_superblock(file: BinaryIO, size_bytes: int) -> Superblock:
    """Read the superblock and compare the end that it states with the file's size.

    Raises:
        DamagedError: there is none, it fails its checksum, it is still open for writing, or the file is too short.

    """
    if size_bytes == 0:
        raise DamagedError("the file is empty")
    offset = find_signature(file, size_bytes)
    if offset is None:
        raise DamagedError("it has no HDF5 signature")
    file.seek(offset)
    found = _parse(file.read(160), offset)
    if found.end_of_file > size_bytes:
        raise DamagedError(f"it was cut off: {size_bytes} bytes of the {found.end_of_file} that its superblock states")
    return found


def _parse(head: bytes, offset: int) -> Superblock:
    if len(head) < 48:
        raise DamagedError("it ends inside its superblock")
    version = head[8]
    if version in (0, 1):
        width = head[13]
        addresses = 24 if version == 0 else 28
        end_at = addresses + 2 * width
    elif version in (2, 3):
        width = head[9]
        end_at = 12 + 2 * width
        _check_newer(head, width, version)
    else:
        raise DamagedError(f"its superblock has the unknown version {version}")
    if width not in _ADDRESS_SIZES or end_at + width > len(head):
        raise DamagedError(f"its superblock states addresses of {width} bytes")
    return Superblock(version, offset, int.from_bytes(head[end_at : end_at + width], "little"))


def _check_newer(head: bytes, width: int, version: int) -> None:
    checksum_at = 12 + 4 * width
    stored = int.from_bytes(head[checksum_at : checksum_at + 4], "little")
    if width not in _ADDRESS_SIZES or stored != jenkins.compute(head[:checksum_at]):
        raise DamagedError("its superblock fails its checksum")
    if version == 3 and head[11] & _OPEN_FOR_WRITING:
        raise DamagedError("its superblock says that it is open for writing: the writer runs or was killed")
