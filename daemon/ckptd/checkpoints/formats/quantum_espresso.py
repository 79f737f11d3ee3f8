"""Quantum ESPRESSO's `PREFIX.save/` directories: an XML file, the charge density and the wave functions.

The XML is written last of all and names what belongs to it: the k points, whether their wave functions were collected
here, and the pseudopotentials, which are copied. The layouts: Modules/qexsd.f90, io_base.f90 of Quantum ESPRESSO.
With HDF5 the `.dat` files are `.hdf5`. The step is that of the last `<step>` of a relaxation or dynamics.
"""

import re
import xml.parsers.expat
from collections.abc import Iterator

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, examine_parts
from ckptd.checkpoints.formats.encodings import fortran_records, hdf5_content
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_XML_NAMES = ("data-file-schema.xml", "data-file.xml")
_MEMBERS = re.compile(
    r"charge-density\.(?:dat|hdf5|xml)|(?:wfc|wfcup|wfcdw|evc)\d+\.(?:dat|hdf5)|data-file(?:-schema)?\.xml"
)
_XML_LIMIT = 256 << 20
_STEP = re.compile(rb'<(?:step n_step|STEP ITERATION)="\s*(\d{1,15})\s*"')
_PSEUDOPOTENTIAL = re.compile(rb"<pseudo_file>\s*([^<>]{1,255}?)\s*</pseudo_file>")
_K_POINTS = re.compile(rb"<nks>\s*(\d{1,9})\s*</nks>")
_CLOSING = re.compile(rb"</(?:[A-Za-z]+:)?(?:espresso|Root)>\s*$")
_MOST_MISSING = 3
_HEAD_BYTES = 512
_POINTER = b"version https://git-lfs.github.com/"


class QuantumEspresso:
    name = "quantum-espresso"
    role_unread = roles.RESTART_RESULT

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for name, child in directory.directories.items():
            if name.endswith(".save") and any(_MEMBERS.fullmatch(member) for member in child.files):
                yield Claim(format=self.name, shape=Shape.DIRECTORY, path=child.path, files=tuple(child.walk_files()))

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level, role=self.role_unread)
        parts.findings.unchecked.add("")
        return examine_parts(parts, lambda: _check(parts))


def _check(parts: CheckpointParts) -> None:
    name = next((name for name in _XML_NAMES if name in parts.files), _XML_NAMES[0])
    parts.require(name)
    with parts.blame(name):
        text = _read_xml(parts, name)
    steps = _STEP.findall(text)
    parts.findings.step = int(steps[-1]) if steps else None
    if name == _XML_NAMES[0]:
        _check_members(parts, text)
    for member in parts.names:
        with parts.blame(member):
            _check_file(parts, member)


def _read_xml(parts: CheckpointParts, name: str) -> bytes:
    file = parts.files[name]
    if not file.size_bytes:
        raise DamagedError("the file is empty")
    try:
        text = parts.reader.read_whole(file.path, _XML_LIMIT)
    except ValueError as error:
        raise DamagedError(f"it is larger than {_XML_LIMIT} bytes") from error
    if not text.lstrip().startswith(b"<"):
        raise DamagedError("it is no XML")
    if not _CLOSING.search(text[-200:]):
        raise DamagedError("its last element is not closed: the file is cut off")
    if parts.level is Level.FULL:
        _parse(text)
    return text


def _parse(text: bytes) -> None:
    def refuse(*_: object) -> None:
        raise DamagedError("its XML declares entities, which Quantum ESPRESSO never does")

    parser = xml.parsers.expat.ParserCreate("UTF-8")  # whatever it declares: no codec is chosen by a name in the file
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except xml.parsers.expat.ExpatError as error:
        raise DamagedError(f"its XML is damaged: {error}") from error


def _check_members(parts: CheckpointParts, text: bytes) -> None:
    wanted = {f"{raw.decode('latin-1')}" for raw in _PSEUDOPOTENTIAL.findall(text)}
    missing = sorted(name for name in wanted if name not in parts.files)
    if not {"charge-density.dat", "charge-density.hdf5"} & set(parts.files):
        missing.append("charge-density.dat")
    points = _K_POINTS.search(text)
    if b"<wf_collected>true" in text and points:
        stems = ("wfcup", "wfcdw") if b"<lsda>true" in text[points.start() - 4000 :] else ("wfc",)
        missing += [
            f"{stem}{number}.dat"
            for number in range(1, _bounded(int(points[1]), parts) + 1)
            for stem in stems
            if f"{stem}{number}.dat" not in parts.files and f"{stem}{number}.hdf5" not in parts.files
        ]
    if missing:
        more = f" and {len(missing) - _MOST_MISSING} more" if len(missing) > _MOST_MISSING else ""
        raise DamagedError(f"{', '.join(missing[:_MOST_MISSING])}{more} missing, which the XML names")


def _bounded(points: int, parts: CheckpointParts) -> int:
    """Limit a declared count to one more than the files can hold: the first missing one is enough."""
    return min(points, len(parts.files) + _MOST_MISSING)


def _check_file(parts: CheckpointParts, name: str) -> None:
    file = parts.files[name]
    if not file.size_bytes:
        raise DamagedError("the file is empty")
    if name.endswith(".dat") and _MEMBERS.fullmatch(name):
        with parts.open(name) as stream:
            _check_records(fortran_records.walk(stream), is_wave=not name.startswith("charge"))
    elif name.endswith(".hdf5"):
        with parts.open(name) as stream:
            hdf5_content.examine(stream, file.size_bytes, parts.level)
    elif name.lower().endswith(".upf"):
        with parts.open(name) as stream:
            head = stream.read(_HEAD_BYTES)
            stream.seek(max(0, file.size_bytes - 4096))
            _check_pseudopotential(head, stream.read())


def _check_records(records: Iterator[fortran_records.FortranRecord], *, is_wave: bool) -> None:
    """Check that as many bands, or spin components, follow as the head declares."""
    if not next(records).size_bytes:
        raise DamagedError("it begins with zeros: the write was lost")
    wanted, size = 1, 0
    if is_wave:
        sizes = next(records, None)
        if sizes is None or len(sizes.integers()) < 4:
            raise DamagedError("the sizes of the wave function are missing")
        vectors, components, wanted = sizes.integers()[1:4]
        size = 16 * vectors * components
    data = [record.size_bytes for record in records][2:]  # behind the cell and the indices of the vectors
    if len(data) < wanted or (size and any(one != size for one in data[:wanted])):
        raise DamagedError(f"{len(data)} of {wanted} records of coefficients are there, or are too short")


def _check_pseudopotential(head: bytes, tail: bytes) -> None:
    if b"\0" in head or head.startswith(_POINTER):
        raise DamagedError("it does not begin as a pseudopotential does")
    if not tail.strip(b"\0"):
        raise DamagedError("it ends in zeros")
    if b"<" in tail and not re.search(rb"</(?:UPF|PP_[A-Z_]+|qe_pp:pseudo)\s*>\s*$", tail):
        raise DamagedError("its last element is not closed: the file is cut off")
