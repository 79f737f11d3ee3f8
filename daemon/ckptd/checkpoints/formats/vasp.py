"""Reads VASP's wave functions, `WAVECAR`: the next run starts from them, and analyses read them too.

VASP overwrites the file in place. Its records have one length and, but for the coefficients, consist of doubles. The
first holds the length, the number of spins and a tag for the precision; the second the numbers of k points and bands,
the cutoff and the cell. Then each spin and k point has a record about its bands and one for each band.
Sources: https://www.vasp.at/wiki/index.php/WAVECAR, pymatgen's pymatgen/io/vasp/outputs.py (`Wavecar`).
With `LWAVE = .FALSE.` VASP leaves an empty file, which is not claimed.
"""

from collections.abc import Iterator
from struct import unpack

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import CheckpointState, Level

_NAME = "WAVECAR"
_TAGS = frozenset({45200, 45210, 53300, 53310})
_MOST = 1 << 31
_HEADER_BYTES = 24
_SAMPLE_BYTES = 4096


class Vasp:
    name = "vasp"
    role_unread = roles.RESTART_RESULT

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - the name is enough
        file = directory.files.get(_NAME)
        if file is not None and file.size_bytes:
            yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - it has no checksum
        with reader.open(claim.files[0].path) as file:
            content = FileSlice.whole(file)
            order = _find_order(content)
            length, spins, tag = _read_counts(content, 0, 3, order)
            if tag not in _TAGS or spins not in {1, 2} or length < _HEADER_BYTES:
                raise DamagedError("it does not begin as a WAVECAR does")
            points, bands = _read_counts(content, length, 2, order)
            wanted = length * (2 + spins * points * (bands + 1))
            if content.size_bytes < wanted:
                raise DamagedError(f"cut off: it has {content.size_bytes} of {wanted} bytes")
            last = content.read(wanted - length, min(length, _SAMPLE_BYTES))
        if not any(last):
            doubt = "its last band holds zeros only: a lost write or data, no checksum in this format can tell"
            return Examination(state=CheckpointState.UNKNOWN, reason=doubt).shown_as(self.role_unread)
        return Examination().shown_as(self.role_unread)


def _find_order(content: FileSlice) -> str:
    """Return the byte order in which the tag of the precision is a known one; "<" if it is in neither."""
    head = content.read(0, min(_HEADER_BYTES, content.size_bytes))
    return ">" if len(head) == _HEADER_BYTES and unpack(">3d", head)[2] in _TAGS else "<"


def _read_counts(content: FileSlice, at: int, count: int, order: str) -> list[int]:
    """Return positive integers that are stored as doubles.

    Raises:
        DamagedError: they are no such numbers.

    """
    values = unpack(f"{order}{count}d", content.read(at, 8 * count))
    if not all(0 < value < _MOST and value == int(value) for value in values):
        raise DamagedError("it does not begin as a WAVECAR does")
    return [int(value) for value in values]
