"""CP2K's restart files: `PROJECT-1.restart`, numbered ones, and the copies `.bak-1`, `.bak-2` of the ones before.

A restart file is a CP2K input with the state in it: text in sections that close. The step is STEP_START_VAL of the
motion, see create_md_section and its siblings in src/motion of CP2K.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from ckptd.checkpoints.formats import checkpoint_parts, roles
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Level

_NAME = re.compile(r"\.restart(?:\.bak-\d+)?$")
_OWN_NAME = re.compile(r"-\d+(?:_\d+)?\.restart(?:\.bak-\d+)?$|\.restart\.bak-\d+$")
_NAME_STEP = re.compile(r"-\d+_(\d+)\.restart")
_HEAD = re.compile(rb"\s*(?:#[^\n]*\n\s*)*(?:# Version information for this restart file|&[A-Z_]+)")
_BINARY_HEADS = (b"LammpS", b"\x1f\x8b", b"PK", b"\x89HDF", b"BZh")
_NUMBERS_IN = {"COORD": (1, 4), "VELOCITY": (0, 3), "FORCE": (0, 3)}  # which words of a line are numbers
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[EeDd][-+]?\d+)?")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STRUCTURE_BYTES = 32 << 20
_SAMPLE_BYTES = 1 << 20
_LONGEST_LINE = 1 << 20
_DEEPEST = 64


class Cp2kRestart:
    name = "cp2k-restart"
    role_unread = roles.RESTART_FILE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.files.values():
            if _NAME.search(file.name) and _is_meant(file, reader):
                step = _NAME_STEP.search(file.name)
                yield Claim(
                    format=self.name,
                    shape=Shape.FILE,
                    path=file.path,
                    files=(file,),
                    name_step=int(step[1]) if step else None,
                )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        entry = claim.files[0]
        if not entry.size_bytes:
            raise DamagedError("the file is empty")
        walk = _RestartWalk(reads_numbers=level is Level.FULL)
        with reader.open(entry.path) as file:
            if level is Level.FULL or entry.size_bytes <= _STRUCTURE_BYTES:
                walk.read(file)
                walk.close()
            else:
                walk.sample(file, entry.size_bytes)
        return Examination(step=walk.step).shown_as(self.role_unread)


def _is_meant(file: File, reader: Reader) -> bool:
    """Whether a file is CP2K's, by its first bytes; if these are damaged, by its name."""
    head = checkpoint_parts.read_head(reader, file.path, 512)
    if _HEAD.match(head):
        return True
    return bool(_OWN_NAME.search(file.name)) and not head.startswith(_BINARY_HEADS)


@dataclass
class _RestartWalk:
    """The open sections and what was found, line by line."""

    reads_numbers: bool
    step: int | None = None
    line_number: int = 0
    sections_seen: int = 0
    open: list[str] = field(default_factory=list)

    def read(self, file: BinaryIO) -> None:
        while line := file.readline(_LONGEST_LINE):
            self.line_number += 1
            if not line.endswith(b"\n"):
                raise DamagedError(f"the file ends in the middle of line {self.line_number}")
            self._line(line)

    def sample(self, file: BinaryIO, size_bytes: int) -> None:
        """Read the beginning, where the step is, and see that the end closes a section of the top level."""
        for line in file.read(_SAMPLE_BYTES).splitlines()[:-1]:
            self.line_number += 1
            self._line(line)
        file.seek(size_bytes - 256)
        last = file.read().rsplit(b"\n", 2)
        if not self.sections_seen or len(last) < 3 or last[2] or not re.match(rb" ?&END", last[1]):
            raise DamagedError("the last section is not closed: the file is cut off")

    def close(self) -> None:
        if not self.sections_seen:
            raise DamagedError("it holds no section: it is no CP2K restart file")
        if self.open:
            raise DamagedError(f"section {self.open[-1]} is not closed: the file is cut off")

    def _line(self, line: bytes) -> None:
        if _CONTROL.search(line):
            raise DamagedError(f"line {self.line_number} holds bytes that are no text")
        words = line.split()
        if not words or words[0].startswith((b"#", b"!")):
            return
        word = words[0].upper()
        if word == b"&END":
            self._end(words[1].decode("latin-1").upper() if len(words) > 1 else None)
        elif word.startswith(b"&"):
            self._begin(word[1:].decode("latin-1"))
        elif self.open:
            self._content(words)

    def _begin(self, name: str) -> None:
        if len(self.open) >= _DEEPEST:
            raise DamagedError(f"line {self.line_number} nests sections deeper than CP2K does")
        self.sections_seen += 1
        self.open.append(name)

    def _end(self, name: str | None) -> None:
        if not self.open or (name is not None and name != self.open[-1]):
            wanted = self.open[-1] if self.open else "none"
            raise DamagedError(f"line {self.line_number} closes section {name}, open is {wanted}")
        self.open.pop()

    def _content(self, words: list[bytes]) -> None:
        key = words[0].decode("latin-1").upper()
        if key == "STEP_START_VAL" and len(words) > 1 and words[1].isdigit():
            self.step = int(words[1][:18]) if self.step is None else self.step
        begin, end = _NUMBERS_IN.get(self.open[-1], (0, 0))
        if self.reads_numbers and end and (key[:1].isalpha() == bool(begin)) and len(words) >= end:
            self._numbers(words[begin:end])
        elif self.reads_numbers and end and begin == 0 and key[:1] in "+-.0123456789":
            raise DamagedError(f"line {self.line_number} has {len(words)} of {end} numbers")

    def _numbers(self, words: list[bytes]) -> None:
        for word in words:
            if not _NUMBER.fullmatch(word):
                raise DamagedError(f"line {self.line_number} holds {word[:30]!r} where a number should be")
