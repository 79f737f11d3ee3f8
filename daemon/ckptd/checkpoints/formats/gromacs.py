"""GROMACS checkpoints: `state.cpt`, `state_prev.cpt`, and the numbered files of `-cpnum`.

mdrun writes `state_stepN.cpt` and renames it; a name with a number is final under `-cpnum` and a leftover otherwise,
and holds a whole state in both cases, so only its content decides.

The number of the simulation part in a checkpoint proves whether mdrun was continued (`-cpi`), and how often. The
history of energies counts the steps since mdrun began its output files: under `-noappend`, since it was last continued;
otherwise, since the start of the simulation.

The layout is XDR: see do_cpt_header, do_cpt_state, do_cpt_enerhist and do_cpt_footer in
src/gromacs/fileio/checkpoint.cpp, and initializeEnergyHistory in src/gromacs/modularsimulator/energydata.cpp.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ckptd.checkpoints.formats import foreign_content, roles
from ckptd.checkpoints.formats.checkpoint_names import claim_file
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings.cursor import Cursor
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_MAGIC = 171817
_MAGIC_BYTES = _MAGIC.to_bytes(4, "big")
_END_MAGIC = 171819
_END_BYTES = _END_MAGIC.to_bytes(4, "big")
_LARGEST_VERSION = 99  # 2022 writes 22; one more with every change of the header
_KNOWN_VERSION = 22  # up to here the fields between header and state are known
_FLAG_FIELDS = ((4, 2), (14, 1), (15, 1), (16, 1), (17, 1), (18, 1), (22, 1))  # (since version, how many integers)
_WIDTHS = {0: 4, 1: 4, 2: 8}  # of the XDR types int, float, double
_POSITIONS, _VELOCITIES = 7, 8
_KINETIC_MATRICES = frozenset({1, 4, 5})  # entries of the kinetic energies with the count of matrices before the values
_ENERGY_COUNTS = frozenset({3, 5, 6, 7})  # entries of the history of energies that are one integer of eight bytes
_STEPS_OF_SIMULATION = 7  # the last one of these
_LONGEST_TEXT = 1024
_OLDEST_WITH_FOOTER = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class _GromacsHeader:
    version: int
    atom_count: int
    part: int | None  # 1 in a start without a checkpoint, one more with each checkpoint that mdrun continued from
    step: int
    time_ps: float
    state_flags: int
    kinetic_flags: int
    energy_flags: int
    is_modular: bool


class Gromacs:
    name = "gromacs"
    role_unread = roles.RESTART_FILE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.by_suffix.get("cpt", ()):
            if not foreign_content.is_ordinary_text(read_head(reader, file.path, foreign_content.HEAD_BYTES)):
                yield claim_file(self.name, file)  # a text is a color palette, as of GMT

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - has no checksum
        continued_from = None
        with reader.open(claim.files[0].path) as file:
            cursor = Cursor(file, order=">")
            if not cursor.size:
                raise DamagedError("the file is empty")
            head = file.read(foreign_content.HEAD_BYTES)
            file.seek(max(0, cursor.size - len(_END_BYTES)))
            if _is_of_another_program(head, file.read()):
                return Examination(reason="of no format that is known here")
            file.seek(0)
            header = _read_header(cursor)
            if header.version >= _OLDEST_WITH_FOOTER:
                _check_footer(Cursor(file, order=">", start=max(0, cursor.size - 4)))
            if header.version <= _KNOWN_VERSION and not header.is_modular:
                file.seek(cursor.position)
                _walk_state(cursor, header)
                with contextlib.suppress(DamagedError):  # older versions may lay it out differently
                    continued_from = _read_continued_from(cursor, header)
        return Examination(
            step=header.step,
            metrics={"time_ps": header.time_ps},
            continued_count=header.part - 1 if header.part is not None and header.part > 0 else None,
            continued_from_step=continued_from,
        ).shown_as(self.role_unread)


def _is_of_another_program(head: bytes, end: bytes) -> bool:
    """Whether a file neither begins nor ends as GROMACS's do, or with zeros or text: Desmond has the same suffix."""
    if not any(head) or foreign_content.is_text(head):
        return False
    return end != _END_BYTES and not foreign_content.resembles(head, _MAGIC_BYTES)


def _read_header(cursor: Cursor) -> _GromacsHeader:
    if (magic := cursor.integer()) != _MAGIC:
        raise DamagedError(f"it begins with {magic} where a GROMACS checkpoint begins with {_MAGIC}")
    for _ in range(6):  # version, build time, user and host, program, time
        _skip_text(cursor)
    version = cursor.integer()
    if not 1 <= version <= _LARGEST_VERSION:
        raise DamagedError(f"checkpoint version {version} does not exist")
    if version >= 13:
        cursor.integer()  # double precision
    if version >= 12:
        _skip_text(cursor)  # host
    atom_count = cursor.integer()
    cursor.integer()  # temperature groups
    for _ in [since for since in (10, 11, 14) if version >= since]:
        cursor.integer()  # chains, chains of the barostat, lambdas
    cursor.integer()  # integrator
    part = cursor.integer() if version >= 3 else None
    step = cursor.long() if version >= 5 else cursor.integer()
    time_ps = cursor.double()
    cursor.skip(5 * 4)  # ranks, the domain grid, PME ranks
    state_flags = cursor.integer()
    flags = [cursor.integer() for since, count in _FLAG_FIELDS if version >= since for _ in range(count)]
    if atom_count < 0 or step < 0 or not math.isfinite(time_ps):
        raise DamagedError(f"the header is not plausible: {atom_count} atoms, step {step}, time {time_ps}")
    return _GromacsHeader(
        version=version,
        atom_count=atom_count,
        part=part,
        step=step,
        time_ps=time_ps,
        state_flags=state_flags,
        kinetic_flags=flags[0] if version >= 4 else 0,
        energy_flags=flags[1] if version >= 4 else 0,
        is_modular=version >= 22 and bool(flags[-1]),
    )


def _skip_text(cursor: Cursor) -> None:
    length = cursor.integer()
    if not 0 <= length <= _LONGEST_TEXT:
        raise DamagedError(f"a text of {length} bytes in the header cannot be")
    cursor.skip(length + -length % 4)


def _check_footer(cursor: Cursor) -> None:
    try:
        magic = cursor.integer()
    except DamagedError as error:
        raise DamagedError("the closing number is missing: the file is cut off") from error
    if magic != _END_MAGIC:
        raise DamagedError("the closing number is missing: the file is cut off or was not written whole")


def _walk_state(cursor: Cursor, header: _GromacsHeader) -> None:
    """Pass over the vectors of the state: count, type and values, one for each flag."""
    for bit in range(32):
        if header.state_flags >> bit & 1:
            count = _skip_values(cursor, f"entry {bit} of the state")
            if bit in {_POSITIONS, _VELOCITIES} and count != 3 * header.atom_count:
                raise DamagedError(f"{count} coordinates are stored for {header.atom_count} atoms")


def _skip_values(cursor: Cursor, what: str) -> int:
    """Pass over a count, a type and values; return the count."""
    count, kind = cursor.integer(), cursor.integer()
    if count < 0 or kind not in _WIDTHS:
        raise DamagedError(f"{what} is {count} values of type {kind}")
    cursor.skip(count * _WIDTHS[kind])
    return count


def _read_continued_from(cursor: Cursor, header: _GromacsHeader) -> int | None:
    """Return the step that mdrun was continued from, after the state; None where it was not, or appends to its files.

    Where it appends to files of a simulation that did not begin with step 0, it is the step of that begin.
    """
    if header.part is None or header.part <= 1 or not header.energy_flags >> _STEPS_OF_SIMULATION & 1:
        return None
    for bit in range(32):
        if header.kinetic_flags >> bit & 1:
            if bit in _KINETIC_MATRICES:
                cursor.integer()
            _skip_values(cursor, f"entry {bit} of the kinetic energies")
    steps = 0
    for bit in range(_STEPS_OF_SIMULATION + 1):
        if not header.energy_flags >> bit & 1:
            continue
        if bit in _ENERGY_COUNTS:
            steps = cursor.long()
        else:
            _skip_values(cursor, f"entry {bit} of the energies")
    return header.step - steps if 0 < steps < header.step else None
