"""OpenFOAM's time directories: `0.5/` with a file for each field, or one such in every `processorN/` of a parallel run.

A directory named by a number is claimed only if `system` and `constant` are beside it, or if its files start like
OpenFOAM's. The time 0 is the user's input and is claimed only if a solver wrote it. One time of a decomposed case is
one checkpoint, named `processor*@TIME`, and complete only if every processor has it. `processorsN/TIME` of the collated
format holds the data of all processors. Sources: src/OpenFOAM/db/Time and src/OpenFOAM/global/fileOperations of
OpenFOAM; `encodings/openfoam_file` names those of the files.
"""

import re
from collections.abc import Iterator
from itertools import islice

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, examine_parts, read_head
from ckptd.checkpoints.formats.encodings import openfoam_file
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_TIME = re.compile(r"\d{1,18}(?:\.\d{1,18})?(?:e[-+]?\d{1,3})?", re.IGNORECASE)
_PROCESSOR = re.compile(r"processor(\d{1,9})")
_OTHER_SUFFIXES = (".csv", ".dat", ".obj", ".stl", ".txt", ".vtk", ".vtp", ".xy", ".png", ".json", ".foam", ".log")
_HEADS_READ = 3
_TIMES_COMPARED = 3
_WRITTEN = "uniform/time"  # the first file that a solver writes of a time


class OpenFoam:
    name = "openfoam"
    role_unread = roles.RESTART_RESULT

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        processors = {
            int(found[1]): child
            for name, child in directory.directories.items()
            if (found := _PROCESSOR.fullmatch(name))
        }
        if processors:
            yield from _claim_decomposed(self.name, directory, processors)
        if _PROCESSOR.fullmatch(directory.name):
            return  # its times belong to the case above
        is_case = {"system", "constant"} <= directory.directories.keys()
        times = [
            child for child in _times(directory) if is_case or _looks_written(child) or _has_foam_head(child, reader)
        ]
        for index, child in enumerate(times):
            yield Claim(
                format=self.name,
                shape=Shape.DIRECTORY,
                path=child.path,
                files=tuple(child.walk_files()),
                damage=_missing_part(child, times[max(0, index - 2) : index], times[index + 1 : index + 2]),
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level, role=self.role_unread)
        parts.findings.unchecked.add("")
        return examine_parts(parts, lambda: _check(parts))


def _times(directory: Directory) -> list[Directory]:
    """Return the children that are named as a time and hold files, in the order of time."""
    found = [child for name, child in directory.directories.items() if _TIME.fullmatch(name)]
    found = [child for child in found if _looks_written(child) or (child.files and float(child.name) > 0)]
    found.sort(key=lambda child: float(child.name))
    written = [child for child in found if child.files and _looks_written(child)][-_TIMES_COMPARED:]
    if not written:
        return found
    # function objects write times in between, without the solver's own file and its fields
    fields = set.intersection(*map(_fields, written))
    return [child for child in found if _looks_written(child) or fields <= _fields(child)]


def _looks_written(child: Directory) -> bool:
    uniform = child.directories.get("uniform")
    return uniform is not None and any(name.removesuffix(".gz") == "time" for name in uniform.files)


def _has_foam_head(child: Directory, reader: Reader) -> bool:
    return any(
        openfoam_file.begins_as_one(read_head(reader, file.path, openfoam_file.HEAD_BYTES), file.name)
        for file in islice(child.files.values(), _HEADS_READ)
    )


def _fields(child: Directory) -> set[str]:
    return {name.removesuffix(".gz") for name in child.files}


def _parts(child: Directory) -> set[str]:
    return _fields(child) | ({_WRITTEN} if _looks_written(child) else set())


def _missing_part(child: Directory, before: list[Directory], after: list[Directory]) -> str | None:
    """Name a part that the times around this one have.

    A field counts if both times before have it, or the one before and the one after: some are written less often.
    """
    beside = [*before[-1:], *after]
    if before and not _looks_written(child) and any(map(_looks_written, beside)):
        return f"{_WRITTEN} is missing, which the times around it have"
    if not child.files and any(one.files for one in beside):
        return "it holds no field, unlike the times around it"
    around = [_fields(one) for one in (*before, *after)[-2:]] if before else []
    if len(around) < 2:
        return None
    missing = sorted(set.intersection(*around) - _fields(child))
    return f"the field {missing[0]} is missing, which the times around it have" if missing else None


def _claim_decomposed(name: str, directory: Directory, processors: dict[int, Directory]) -> Iterator[Claim]:
    times: dict[str, dict[int, Directory]] = {}
    for number, processor in processors.items():
        for child in _times(processor):
            times.setdefault(child.name, {})[number] = child
    for time, holders in times.items():
        yield Claim(
            format=name,
            shape=Shape.SET,
            path=directory.join(f"processor*@{time}"),
            files=tuple(file for number in sorted(holders) for file in holders[number].walk_files()),
            damage=_uneven(processors, holders),
        )


def _uneven(processors: dict[int, Directory], holders: dict[int, Directory]) -> str | None:
    """Say which processor lacks the time, or a field that another has."""
    for number in range(max(processors) + 1 if max(processors) <= 2 * len(processors) else 0):
        if number not in holders:
            return f"processor{number} does not have this time"
    everything = set().union(*(_parts(child) for child in holders.values()))
    for number, child in sorted(holders.items()):
        if lacking := sorted(everything - _parts(child)):
            return f"processor{number} lacks {'' if lacking[0] == _WRITTEN else 'the field '}{lacking[0]}"
    return None


def _check(parts: CheckpointParts) -> None:
    for name, file in sorted(parts.files.items()):
        if name.lower().endswith(_OTHER_SUFFIXES):
            continue
        with parts.blame(name), parts.reader.open(file.path) as stream:
            found = openfoam_file.check(stream, file.name, file.size_bytes, parts.level)
        if found.step is not None and parts.findings.step is None:
            parts.findings.step = found.step
            parts.findings.metrics.update({} if found.time is None else {"time": found.time})
    if parts.level is Level.FULL:
        _check_flux(parts)


def _check_flux(parts: CheckpointParts) -> None:
    """Check that a solver that sums its continuity errors also saved the flux whose errors they are."""
    names = {name.rpartition("/")[2].removesuffix(".gz") for name in parts.files}
    if "cumulativeContErr" in names and not any("phi" in name.lower() for name in names):
        raise DamagedError("the flux phi is missing, though its continuity error is there")
