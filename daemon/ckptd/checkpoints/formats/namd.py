"""NAMD's restart files: `X.restart.coor`, `.vel` and `.xsc` together, `X.restart.STEP.*` with `restartsave`.

Each save renames the files before it to `.old`, or `.BAK`. Binary files are an int32 count of atoms and three doubles
for each, in the byte order of the machine; with `binaryrestart no` they are PDB. The last line of the `.xsc` begins
with the step. Sources: NAMD's user guide, "NAMD binary files" and "restartsave"; src/Output.C and Controller.C.
What NAMD writes at its end under the names `X.coor`, `X.vel`, `X.xsc` is a result, and is not claimed.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, examine_parts
from ckptd.checkpoints.formats.encodings.cursor import Cursor
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Level

_NAME = re.compile(
    r"(?P<prefix>.+\.(?:restart(?=\.)|(?:restart\.)?(?P<step>\d{1,15})))\.(?:coor|vel|xsc)(?P<age>\.old|\.BAK)?",
    re.DOTALL,
)
_NEEDED = ("coor", "vel")
_PDB_HEADS = (b"CRYST1", b"REMARK", b"ATOM  ", b"HETATM")
_ATOM_BYTES = 24
_TEXT_LIMIT = 1 << 20


class Namd:
    name = "namd"
    role_unread = roles.RESTART_FILE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        sets: dict[str, list[tuple[re.Match[str], File]]] = {}
        for suffix in (*_NEEDED, "xsc", "old", "bak"):
            for file in directory.by_suffix.get(suffix, ()):
                if match := _NAME.fullmatch(file.name):
                    sets.setdefault(f"{match['prefix']}{match['age'] or ''}", []).append((match, file))
        with_system = {kind for each in sets.values() if (kind := _kind_with_system(each))}
        for path, found in sets.items():
            step = found[0][0]["step"]
            lacks_system = _kind_with_system(found) is None and _kind_of(found) in with_system
            yield Claim(
                format=self.name,
                shape=Shape.SET,
                path=directory.join(path),
                files=tuple(sorted(file for _, file in found)),
                name_step=int(step) if step else None,
                damage="the extended system is missing, which its other saves have" if lacks_system else None,
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level, role=self.role_unread)
        parts.findings.unchecked.add("")
        return examine_parts(parts, lambda: _check(parts, claim))


def _kind_of(found: list[tuple[re.Match[str], File]]) -> str:
    """Return what the names of a series of saves have in common, with `#` for the step; `.old` ones are of it."""
    return re.sub(r"\d+$", "#", found[0][0]["prefix"])


def _kind_with_system(found: list[tuple[re.Match[str], File]]) -> str | None:
    return _kind_of(found) if any(".xsc" in file.name for _, file in found) else None


def _check(parts: CheckpointParts, claim: Claim) -> None:
    age = next((end for end in (".old", ".BAK") if claim.path.endswith(end)), "")
    prefix = claim.path.rpartition("/")[2].removesuffix(age)
    system = f"{prefix}.xsc{age}"
    if system in parts.files:
        with parts.blame(system):
            parts.findings.step = _read_step(parts, system)
    counts = {kind: _count_atoms(parts, f"{prefix}.{kind}{age}") for kind in _NEEDED}
    if None not in counts.values() and len(set(counts.values())) > 1:
        raise DamagedError(f"it has coordinates of {counts['coor']} atoms and velocities of {counts['vel']}")


def _read_step(parts: CheckpointParts, name: str) -> int:
    """Return the step that the extended system is of."""
    with parts.open(name) as file:
        text = file.read(_TEXT_LIMIT)
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith(b"#")]
    if b"\0" in text or not text.endswith(b"\n") or not lines or not lines[-1][0].isdigit():
        raise DamagedError("its line of the extended system is missing: the file is cut off")
    return int(lines[-1][0][:18])


def _check_last_atoms(file: BinaryIO, count: int, name: str) -> None:
    """Check that the last two atoms do not share the origin. Velocities may be zero: those of fixed atoms are."""
    if count < 2 or ".coor" not in name:
        return
    file.seek(-2 * _ATOM_BYTES, 2)
    if not any(file.read()):
        raise DamagedError("it ends in zeros: the end of the write was lost")


def _count_atoms(parts: CheckpointParts, name: str) -> int | None:
    """Return how many atoms a file has, None for a text, after checking that it holds all of them."""
    with parts.open(name) as file, parts.blame(name):
        size_bytes = parts.files[name].size_bytes
        if not size_bytes:
            raise DamagedError("the file is empty")
        if file.read(6) in _PDB_HEADS:
            file.seek(max(0, size_bytes - 64))
            if file.read().split()[-1:] != [b"END"]:
                raise DamagedError("its last line is missing: the file is cut off")
            return None
        for order in "<>":
            file.seek(0)
            count = Cursor(file, order=order).integer()
            if count > 0 and 4 + _ATOM_BYTES * count == size_bytes:
                _check_last_atoms(file, count, name)
                return count
    raise DamagedError(f"{name}: {size_bytes} bytes do not hold the atoms that it counts: the file is cut off")
