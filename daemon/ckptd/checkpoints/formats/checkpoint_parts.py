"""Checks the parts of a checkpoint that is a directory or a set, each by its own format, and collects the findings.

A format of directories decides which parts must exist; this module and the formats of single files check each part.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, BinaryIO

from ckptd.checkpoints.formats import facts, state_walk
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.torch_archive import TorchArchive, read_torch_archive
from ckptd.checkpoints.formats.encodings.torch_legacy import TorchLegacy, is_legacy, read_legacy
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape, describe_unchecked
from ckptd.checkpoints.formats.roles import NOT_SHOWN, RoleEvidence, RoleSigns
from ckptd.checkpoints.scanning.reader import NotRegularError, Reader
from ckptd.checkpoints.scanning.tree import File
from ckptd.core.model import CheckpointState, Level, Role

JSON_LIMIT = 64 << 20


@dataclass(kw_only=True)
class PartFindings:
    """The findings about the parts of one checkpoint so far. The first part that states an epoch or step wins."""

    epoch: float | None = None
    step: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    best_paths: list[str] = field(default_factory=list)
    goal_epoch: float | None = None
    goal_step: int | None = None
    computation: str | None = None
    unsafe: set[str] = field(default_factory=set)
    unchecked: set[str] = field(default_factory=set)  # parts that no checksum covers; "" is the whole checkpoint
    doubt: str | None = None  # why it is unclear whether it is complete
    role: RoleEvidence | None = None  # if the framework's own layout shows it; else the signs decide
    signs: RoleSigns = field(default_factory=RoleSigns)

    def describe_unchecked(self, file_count: int) -> str | None:
        """Describe the parts that no checksum covers; None if these are all parts or none."""
        if not self.unchecked or "" in self.unchecked or len(self.unchecked) >= file_count:
            return None
        names = sorted(self.unchecked)
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return describe_unchecked(f"{names[0]}{others}")

    def add_facts(self, content: Any, number: facts.Number = facts.plain_number) -> None:
        """Add the epoch, step, metrics and best checkpoint that a part's content states."""
        if not content:
            return
        found = facts.find_facts(content, number)
        self.epoch = found.epoch if self.epoch is None else self.epoch
        self.step = found.step if self.step is None else self.step
        if found.best_path and not self.best_paths:
            self.best_paths.append(found.best_path)
        self.goal_epoch = found.goal_epoch if self.goal_epoch is None else self.goal_epoch
        self.goal_step = found.goal_step if self.goal_step is None else self.goal_step
        if found.metrics:
            self.metrics = {**found.metrics, **self.metrics}

    def add_item_name(self, name: str, *, is_array: bool) -> None:
        """Add the signs of the checkpoint's role in the name of one item."""
        if self.role is None and not self.signs.is_whole_state:
            (self.signs.add_array if is_array else self.signs.add_object)(name)

    def add_role_signs(self, content: Any, number: facts.Number = facts.plain_number) -> None:
        """Add the signs of the checkpoint's role in a part's content."""
        if self.role is None and not self.signs.is_whole_state:
            state_walk.add_role_signs(self.signs, content, number)


class _Blame:
    """A context that puts a text before the damage found within it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._prefix and isinstance(error, DamagedError):
            raise DamagedError(f"{self._prefix}{error}") from error


@dataclass(kw_only=True)
class CheckpointParts:
    """The files of one checkpoint, or of a directory in it, by their paths relative to it."""

    reader: Reader
    level: Level
    files: Mapping[str, File]
    findings: PartFindings = field(default_factory=PartFindings)
    place: str = ""  # its place in the checkpoint, for messages

    @classmethod
    def of(cls, claim: Claim, reader: Reader, level: Level, *, role: RoleEvidence | None = None) -> "CheckpointParts":
        """Return the files of a claim, relative to its directory or to the directory of its files.

        `role` is the role of the checkpoint if the format knows it; otherwise the content of the parts shows it.
        """
        base = claim.path if claim.shape is Shape.DIRECTORY else claim.path.rpartition("/")[0]
        start = len(base) + 1 if base else 0
        files = {file.path[start:]: file for file in claim.files}
        return cls(reader=reader, level=level, files=files, findings=PartFindings(role=role))

    @cached_property
    def _by_directory(self) -> dict[str, dict[str, File]]:
        found: dict[str, dict[str, File]] = {}
        for name, file in self.files.items():
            directory, slash, rest = name.partition("/")
            if slash:
                found.setdefault(directory, {})[rest] = file
        return found

    @property
    def directories(self) -> set[str]:
        return set(self._by_directory)

    @cached_property
    def names(self) -> list[str]:
        """The sorted names of the files in this directory, without those in subdirectories."""
        return sorted(name for name in self.files if "/" not in name)

    def below(self, directory: str) -> "CheckpointParts":
        """Return the part of the checkpoint that lies in one of its directories."""
        return CheckpointParts(
            reader=self.reader,
            level=self.level,
            files=self._by_directory.get(directory, {}),
            findings=self.findings,
            place=f"{self.place}{directory}/",
        )

    def open(self, name: str) -> BinaryIO:
        """Open one of the files.

        Raises:
            DamagedError: it is not among the files.

        """
        self.require(name)
        return self.reader.open(self.files[name].path)

    def require(self, name: str, why: str = "") -> None:
        """Check that a file is there.

        Raises:
            DamagedError: it is not; the text says so, and `why` it is needed.

        """
        if name not in self.files:
            raise DamagedError(f"{self.place}{name} is missing{why and f' ({why})'}")

    def blame(self, name: str) -> "_Blame":
        """Add the file's name to damage found within this context, unless the file is the whole checkpoint."""
        return _Blame("" if len(self.files) == 1 and not self.place else f"{self.place}{name}: ")

    @contextmanager
    def torch(self, name: str) -> Iterator[TorchArchive | TorchLegacy]:
        """Check one file of torch.save at the level, and yield its content while it is open.

        Raises:
            DamagedError: it is missing or damaged; the text begins with its name.

        """
        with self.open(name) as file:
            with self.blame(name):
                archive = self.check_torch(FileSlice.whole(file), name)
            yield archive

    def check_torch_file(self, name: str) -> None:
        """Check one file of torch.save.

        Raises:
            DamagedError: it is missing or damaged; the text begins with its name.

        """
        with self.torch(name):
            pass

    def check_torch(self, content: FileSlice, name: str) -> TorchArchive | TorchLegacy:
        """Check what torch.save wrote into the file of that name or a part of it.

        Raises:
            DamagedError: it is damaged.

        """
        archive = _read_torch(content)
        self.findings.unsafe.update(archive.unsafe)
        archive.check_structure()
        if self.level is Level.FULL and not archive.check_full():
            self.findings.unchecked.add(f"{self.place}{name}")
        return archive

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the object that a JSON file holds.

        Raises:
            DamagedError: it is missing, no JSON, no object, or larger than any framework writes.

        """
        self.require(name)
        with self.blame(name):
            return parse_json(self._read_whole(name))

    def _read_whole(self, name: str) -> bytes:
        try:
            return self.reader.read_whole(self.files[name].path, JSON_LIMIT)
        except ValueError as error:
            raise DamagedError(f"it is larger than {JSON_LIMIT} bytes") from error


def _read_torch(content: FileSlice) -> TorchArchive | TorchLegacy:
    head = content.read(0, min(16, content.size_bytes))
    if not head:
        raise DamagedError("the file is empty")
    if is_legacy(head):
        return read_legacy(content)
    if not head.strip(b"\0"):
        raise DamagedError("it begins with zeros: the write was lost")
    if not head.startswith(b"PK"):
        raise DamagedError(f"not a file of torch: it begins with {head!r}")
    return read_torch_archive(content)


def check_all(checks: Iterable[Callable[[], object]]) -> None:
    """Run every check, also after one that failed, because unsafe names and facts are wanted from all parts.

    Raises:
        DamagedError: that of the first one that failed.

    """
    first: DamagedError | None = None
    for check in checks:
        try:
            check()
        except DamagedError as error:
            first = first or error
    if first:
        raise first


def parse_json(text: bytes) -> dict[str, Any]:
    """Return the object in a JSON text.

    Raises:
        DamagedError: there is none.

    """
    if not text.strip(b"\0"):
        raise DamagedError("it holds only zeros" if text else "it is empty")
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise DamagedError("its JSON is nested too deeply") from error
    except ValueError as error:
        raise DamagedError(f"it is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise DamagedError("its JSON is no object")
    return content


def examine_parts(parts: CheckpointParts, check: Callable[[], object], unread: RoleEvidence = NOT_SHOWN) -> Examination:
    """Run a check of the parts and return its findings, also if one of the parts is damaged.

    `unread` is the role to return if the readable content shows none, or too little of a damaged state.
    """
    state, reason = CheckpointState.COMPLETE, None
    try:
        check()
    except DamagedError as error:
        state, reason = CheckpointState.DAMAGED, str(error)
    else:
        if parts.findings.doubt:
            state, reason = CheckpointState.UNKNOWN, parts.findings.doubt
    found = parts.findings
    role = _choose_role(found, state, unread)
    return Examination(
        state=state,
        reason=reason,
        epoch=found.epoch,
        step=found.step,
        best_paths=tuple(found.best_paths),
        goal_epoch=found.goal_epoch,
        goal_step=found.goal_step,
        computation=found.computation,
        metrics=found.metrics,
        unsafe=tuple(sorted(found.unsafe)) if found.unsafe else (),
        has_checksum=not found.unchecked,
        unchecked=found.describe_unchecked(len(parts.files)),
        role=role.role,
        role_evidence=role.evidence,
        is_result=role.is_result,
    )


def _choose_role(found: PartFindings, state: CheckpointState, unread: RoleEvidence) -> RoleEvidence:
    if found.role is not None:
        return found.role
    shown = found.signs.decide()
    if shown.role is Role.PART and unread.role is Role.STATE:
        return shown._replace(role=Role.STATE)  # the format itself puts the parameters beside it
    is_lost = state is CheckpointState.DAMAGED and unread.role is Role.STATE and shown.role is not Role.STATE
    return unread.by_format if is_lost or shown == NOT_SHOWN else shown


def read_head(reader: Reader, path: str, size: int) -> bytes:
    """Return the first bytes of a file, for claims by content; empty if it cannot be read."""
    try:
        return reader.read_head(path, size)
    except (OSError, NotRegularError):
        return b""
