"""CP2K's wave functions: `PROJECT-RESTART.wfn` and its copies `.bak-1`, `.bak-2`; they hold no step.

The layout: write_mo_set_low in src/qs_mo_io.F of CP2K, Fortran records: sizes, three tables of the basis, and for each
spin the numbers of orbitals, their energies and occupations, and one record for each orbital.
"""

import re
from collections.abc import Iterator

from ckptd.checkpoints.formats import checkpoint_names, foreign_content, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import fortran_records
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_NAME = re.compile(r"\.(?:wfn|rtpwfn|kp)(?:\.bak-\d+)?$")
_BASIS_RECORDS = 3
_MOST_ORBITALS = 1 << 24


class Cp2kWavefunction:
    name = "cp2k-wavefunction"
    role_unread = roles.RESTART_FILE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.files.values():
            if _NAME.search(file.name):
                head = read_head(reader, file.path, foreign_content.HEAD_BYTES)
                if not foreign_content.is_ordinary_text(head):  # which is AIMPAC's `.wfn`, as Gaussian writes it
                    yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - has no checksum
        with reader.open(claim.files[0].path) as file:
            records = fortran_records.walk(file)
            if ".wfn" in claim.files[0].name:
                _check(records)
            for _ in records:  # what is left, or the whole of a kind whose order is another, must be whole records
                pass
        return Examination().shown_as(self.role_unread)


def _check(records: Iterator[fortran_records.FortranRecord]) -> None:
    sizes = next(records).integers()
    if len(sizes) < 5 or min(sizes[:3]) <= 0:
        raise DamagedError("it does not begin as a CP2K wave function does")
    spins, orbital_size = sizes[1], 8 * sizes[2]
    if spins > 2 or sum(1 for _, _ in zip(range(_BASIS_RECORDS), records, strict=False)) < _BASIS_RECORDS:
        raise DamagedError("the tables of its basis are missing")
    for spin in range(spins):
        counts = next(records, None)
        if counts is None:
            raise DamagedError(f"the orbitals of spin {spin + 1} are missing")
        orbitals = next(iter(counts.integers()), -1)
        if not 0 <= orbitals <= _MOST_ORBITALS:
            raise DamagedError(f"{orbitals} orbitals of spin {spin + 1} cannot be")
        _check_spin(records, spin, orbitals, orbital_size)


def _check_spin(records: Iterator[fortran_records.FortranRecord], spin: int, orbitals: int, orbital_size: int) -> None:
    if not orbitals:
        return
    next(records, None)  # energies and occupations
    for number in range(orbitals):
        record = next(records, None)
        if record is None:
            raise DamagedError(f"orbital {number + 1} of {orbitals} of spin {spin + 1} is missing")
        if not record.size_bytes or record.size_bytes % orbital_size:
            raise DamagedError(f"orbital {number + 1} of spin {spin + 1} has {record.size_bytes} bytes")
