"""LAMMPS restart files: one file, or with `%` in the name a `base` file and one file for each writing rank.

LAMMPS writes to the final name, so a file without the closing magic is truncated or still being written. Users choose
the names; `restart` in a name is only a convention, and the first bytes decide. If a name lacks this word, ckptd reads
the first bytes only if it contains `base` or a step (`melt.250`, `melt.250.bin`), or if `log.lammps` is beside the
file.

The layout: src/lmprestart.h (flags), write_restart.cpp (order) of LAMMPS. A file is the magic, the byte order, the
revision, flagged records, and for each process its atoms as doubles under the flag PERPROC; the magic closes it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from ckptd.checkpoints.formats import foreign_content, roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings.cursor import Cursor
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Level

_MAGIC = b"LammpS RestartT\0"
_NAME = re.compile(r"(?:^|[^A-Za-z])(?:restart|rst|rest)(?:$|[^A-Za-z])", re.IGNORECASE)
_NOT_BY_NAME = re.compile(r"-\d+(?:_\d+)?\.restart$")  # how CP2K names its own
_NUMBER = re.compile(r"(?:^|[._-])(\d+)(?=[._-]|$)")
_OTHER_SUFFIX = re.compile(
    r"\.(?:h5|hdf5|nc|np[yz]|pth?|pkl|gz|bz2|xz|zip|tar|txt|log|out|err|in|inp|sh|py|json|xml|ya?ml|lmp|data|md|mat|rds|cpt|png)$",
    re.IGNORECASE,
)
_ORDERS = {b"\1\0\0\0": "<", b"\0\0\0\1": ">"}
_STEP_BEFORE = ("bin", "dat", "rst")  # suffixes that people put behind the step
_LARGEST_REVISION = 15  # 3 is the newest
_TIMESTEP, _PROCS_PER_FILE, _PER_PROC = 5, 46, 47
_INTEGERS = frozenset([1, 2, 3, 48])  # how wide the writer's own integers were
_TEXTS = frozenset([0, 4])  # version, units
_FLAGS_BEFORE_STEP = 10
_SEARCH_BYTES = 1 << 20
_MOST_PROBES = 1000  # files whose first bytes are read although no word in their names means restart


class Lammps:
    name = "lammps"
    role_unread = roles.RESTART_FILE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        candidates = {file.name: file for file in directory.files.values() if _may_be(file.name)}
        roots = _list_roots(directory)
        probed = dict.fromkeys([*candidates, *_list_bases(directory), *_list_probes(directory, roots)])
        heads = {name: read_head(reader, directory.files[name].path, 16) for name in probed}
        in_sets: set[str] = set()
        bases = [name for name, head in heads.items() if "base" in name and (name in candidates or head == _MAGIC)]
        for name in bases:
            if claim := self._claim_set(directory, directory.files[name], heads[name]):
                in_sets.update(part.name for part in claim.files)
                yield claim
        templates = [_template_of(name) for name in bases if name in in_sets] or _templates_of_ranks(heads)
        for claim in self._claim_without_base(directory, templates, in_sets, reader):
            in_sets.update(part.name for part in claim.files)
            yield claim
        named = _list_named_by_step(directory, roots, heads, reader)
        company = "log.lammps" in directory.files or _MAGIC in heads.values()
        families = {_without_numbers(name) for name, head in heads.items() if head == _MAGIC}
        for name, head in (heads | named).items():
            is_damaged = name in candidates and _is_damaged_one(name, head, families, company=company)
            if name not in in_sets and (head == _MAGIC or name in named or is_damaged):
                file = directory.files[name]
                yield Claim(
                    format=self.name,
                    shape=Shape.FILE,
                    path=file.path,
                    files=(file,),
                    name_step=_step_of(name),
                )

    def _claim_set(self, directory: Directory, base: File, head: bytes) -> Claim | None:
        before, _, after = base.name.rpartition("base")
        part = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
        ranks = [file for name, file in directory.files.items() if part.fullmatch(name)]
        if head != _MAGIC and not ranks:
            return None
        return self._make_set(directory, before, after, [base], ranks)

    def _make_set(self, directory: Directory, before: str, after: str, base: list[File], ranks: list[File]) -> Claim:
        ranks.sort(key=lambda file: int(file.name[len(before) : len(file.name) - len(after)]))
        return Claim(
            format=self.name,
            shape=Shape.SET,
            path=directory.join(f"{before}%{after}"),
            files=(*base, *ranks),
            name_step=_step_of(before + after),
            damage=None if base else f"{before}base{after} is missing",
        )

    def _claim_without_base(
        self, directory: Directory, templates: list[re.Pattern[str]], taken: set[str], reader: Reader
    ) -> Iterator[Claim]:
        """Yield the files of processes whose base file is missing or holds something else."""
        for template in dict.fromkeys(templates):
            found: dict[tuple[str, str], list[File]] = {}
            for name, file in directory.files.items():
                match = template.fullmatch(name)
                if match and name not in taken and _begins_as_rank(read_head(reader, file.path, 12)):
                    found.setdefault((match["before"], match["after"]), []).append(file)
            for (before, after), ranks in found.items():
                base = directory.files.get(f"{before}base{after}")
                yield self._make_set(directory, before, after, [base] if base else [], ranks)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - has no checksum
        first, *ranks = claim.files
        if claim.shape is Shape.SET and claim.damage:
            raise DamagedError(claim.damage)  # the step is in the base file
        try:
            header = _examine_first(first, reader)
        except DamagedError as error:
            raise DamagedError(f"{first.name}: {error}" if claim.shape is Shape.SET else str(error)) from error
        if claim.shape is Shape.SET:
            _examine_ranks(claim, ranks, header, reader)
        return Examination(step=header.step).shown_as(self.role_unread)


@dataclass(frozen=True, kw_only=True, slots=True)
class _LammpsHeader:
    order: str
    step: int
    file_count: int | None  # of a set beside its base; None where the layout is not the known one


def _may_be(name: str) -> bool:
    return bool(_NAME.search(name)) and not _OTHER_SUFFIX.search(name)


def _list_bases(directory: Directory) -> list[str]:
    """Return the names that may be base files, whatever word a user chose; their bytes decide."""
    found = []
    for name in directory.files:
        before, word, after = name.rpartition("base")
        if word and (not after or not directory.files.keys().isdisjoint((f"{before}0{after}", f"{before}1{after}"))):
            found.append(name)
    return found[:_MOST_PROBES]


def _list_roots(directory: Directory) -> dict[str, list[str]]:
    """Return the names with a step, as of `restart 250 melt` and `restart 250 melt.*.bin`, by what they share."""
    roots: dict[str, list[str]] = {}
    for suffix in _STEP_BEFORE:
        for file in directory.by_suffix.get(suffix, ()):
            if numbers := list(_NUMBER.finditer(file.name)):
                start, end = numbers[-1].span(1)
                roots.setdefault(f"{file.name[:start]}*{file.name[end:]}", []).append(file.name)
    for suffix, files in directory.by_suffix.items():
        if suffix.isdecimal():
            for file in files:
                roots.setdefault(file.name[: -len(suffix) - 1], []).append(file.name)
    return roots


def _list_probes(directory: Directory, roots: Mapping[str, list[str]]) -> list[str]:
    """Return the names to read first, because files of one root are alike: of each root the last and the first two."""
    ordered = (sorted(names, key=lambda name: (len(name), name)) for names in roots.values())
    probes = [name for names in ordered for name in (*names[:2], names[-1])]
    others = directory.files if "log.lammps" in directory.files else ()
    return [*probes[:_MOST_PROBES], *islice(others, _MOST_PROBES)]


def _list_named_by_step(
    directory: Directory, roots: Mapping[str, list[str]], heads: Mapping[str, bytes], reader: Reader
) -> dict[str, bytes]:
    """Return the heads of all files of those roots of which one begins as a restart file does, without foreign ones."""
    found: dict[str, bytes] = {}
    for names in roots.values():
        if any(heads.get(name) == _MAGIC for name in names):
            read = {name: heads.get(name) or read_head(reader, directory.files[name].path, 16) for name in names}
            found |= {name: head for name, head in read.items() if _MAGIC.startswith(head) or not any(head)}
    return found


def _template_of(base: str) -> re.Pattern[str]:
    """Return the name pattern of the files of processes for other steps."""
    before, _, after = base.rpartition("base")
    either = [re.sub(r"\d+", r"\\d+", re.escape(part)) for part in (before, after)]
    return re.compile(rf"(?P<before>{either[0]})\d+(?P<after>{either[1]})")


def _templates_of_ranks(heads: Mapping[str, bytes]) -> list[re.Pattern[str]]:
    """Return the name patterns of files that begin as those of processes do, where number 0 is among them."""
    ranks = {name for name, head in heads.items() if _begins_as_rank(head)}
    places = ((name, found.span()) for name in sorted(ranks) for found in reversed(list(re.finditer(r"\d+", name))))
    return [
        _template_of(f"{name[:start]}base{name[end:]}")
        for name, (start, end) in places
        if f"{name[:start]}0{name[end:]}" in ranks
    ]


def _begins_as_rank(head: bytes) -> bool:
    for order in ("little", "big"):
        flags = [int.from_bytes(head[at : at + 4], order) for at in (0, 8)]
        if flags == [_PROCS_PER_FILE, _PER_PROC]:
            return True
    return False


def _is_damaged_one(name: str, head: bytes, families: Collection[str], *, company: bool) -> bool:
    """Return whether a file without the magic is a damaged restart file, and no input, script or text of such a name.

    `families` are the names of restart files beside it without their numbers; `company` is whether LAMMPS ran here.
    """
    if head and _MAGIC.startswith(head):
        return True
    if _NOT_BY_NAME.search(name):
        return False
    if _without_numbers(name) in families:
        return True
    if not head:
        return company or bool(_NUMBER.search(name))  # people make empty files called `restart` as a signal
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        return company and foreign_content.name_failed_write(head) is not None
    resembles = sum(here == there for here, there in zip(head, _MAGIC, strict=False)) >= 12
    return resembles or not any(head) or (company and "restart" in name.lower())


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _step_of(name: str) -> int | None:
    numbers = _NUMBER.findall(name)
    return int(numbers[-1]) if numbers else parse_name(name).step


def _examine_first(file: File, reader: Reader) -> _LammpsHeader:
    if not file.size_bytes:
        raise DamagedError("the file is empty")
    with reader.open(file.path) as stream:
        cursor = Cursor(stream, order="<")
        if cursor.take(min(16, cursor.size or 0)) != _MAGIC:
            raise DamagedError("it does not begin as a LAMMPS restart file does")
        word = cursor.take(4)
        if word not in _ORDERS:
            raise DamagedError(f"its byte order is {word.hex()}, which is none: LAMMPS refuses it")
        cursor.order = _ORDERS[word]
        revision = cursor.integer()
        if not 0 <= revision <= _LARGEST_REVISION:
            raise DamagedError(f"format revision {revision} does not exist")
        step = _read_step(cursor)
        size = cursor.size or 0
        stream.seek(max(0, size - 16))
        if stream.read(16) != _MAGIC:
            raise DamagedError("the closing magic is missing: the file is cut off or was not written whole")
        stream.seek(0)
        file_count = _check_layout(stream.read(_SEARCH_BYTES), size, cursor.order)
    return _LammpsHeader(order=cursor.order, step=step, file_count=file_count)


def _read_step(cursor: Cursor) -> int:
    """Walk the flagged records at the head of the header as far as the timestep."""
    for _ in range(_FLAGS_BEFORE_STEP):
        flag = cursor.integer()
        if flag in _INTEGERS:
            cursor.skip(4)
        elif flag in _TEXTS:
            cursor.skip(cursor.unsigned())
        elif flag == _TIMESTEP and (step := cursor.long()) >= 0:
            return step
        else:
            break
    raise DamagedError("the header holds no timestep")


def _check_layout(data: bytes, size: int, order: str) -> int | None:
    """Find the record of the layout and follow the atoms of each process to the closing magic.

    Returns the number of files beside a base file, 0 for a single file, None where the record was not found.
    """
    byte_order = "little" if order == "<" else "big"

    def encode(*values: int) -> bytes:
        return b"".join((value & 0xFFFFFFFF).to_bytes(4, byte_order) for value in values)  # type: ignore[arg-type]

    layout = re.compile(
        re.escape(encode(44)) + b"(.{4})(?:" + re.escape(encode(45)) + b".{4})?" + re.escape(encode(-1)), re.DOTALL
    )
    for found in layout.finditer(data):
        count = int.from_bytes(found[1], byte_order)  # type: ignore[arg-type]
        if count and found.end() == size - 16:
            return count
        if not count and data.startswith(encode(_PER_PROC), found.end()):
            _follow(data, found.end(), size, encode(_PER_PROC), byte_order)
            return 0
    return None


def _follow(data: bytes, position: int, size: int, flag: bytes, byte_order: str) -> None:
    """Follow the chain of flag, count and doubles as far as the bytes at hand reach."""
    while position + 8 <= len(data) and position < size - 16:
        if data[position : position + 4] != flag:
            raise DamagedError(f"the atoms of a process should begin at offset {position}")
        position += 8 + 8 * int.from_bytes(data[position + 4 : position + 8], byte_order)  # type: ignore[arg-type]
    if position > size - 16:
        raise DamagedError("the atoms of a process reach beyond the end of the file")


def _examine_ranks(claim: Claim, ranks: list[File], header: _LammpsHeader, reader: Reader) -> None:
    before, _, after = claim.path.rpartition("/")[2].partition("%")
    present = {file.name for file in ranks}
    count = header.file_count if header.file_count is not None else len(ranks)
    missing = [number for number in range(count) if f"{before}{number}{after}" not in present]
    if missing:
        raise DamagedError(
            f"{len(missing)} of {count} files of processes are missing, the first is number {missing[0]}"
        )
    for file in ranks[:count]:
        with reader.open(file.path) as stream:
            try:
                _walk_rank(Cursor(stream, order=header.order))
            except DamagedError as error:
                raise DamagedError(f"{file.name}: {error}") from error


def _walk_rank(cursor: Cursor) -> None:
    if not cursor.size:
        raise DamagedError("the file is empty")
    if cursor.integer() != _PROCS_PER_FILE:
        raise DamagedError("it does not begin as the file of a process does")
    count = cursor.integer()
    if not 0 < count <= cursor.size // 8:
        raise DamagedError(f"it cannot hold {count} processes")
    for _ in range(count):
        if cursor.integer() != _PER_PROC:
            raise DamagedError(f"the atoms of a process should begin at offset {cursor.position - 4}")
        cursor.skip(8 * cursor.unsigned())
    if cursor.take(min(16, cursor.size - cursor.position)) != _MAGIC:
        raise DamagedError("the closing magic is missing: the file is cut off")
