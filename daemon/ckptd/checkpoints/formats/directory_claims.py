"""Claims whole directories, and reads the marker file that names one of them."""

from typing import Any

from ckptd.checkpoints.formats.checkpoint_names import NameFacts
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.interface import Claim, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import NAME_MAX, Directory, File

_MARKER_LIMIT = 4096


def claim_directory(format_name: str, directory: Directory, said: NameFacts, **more: Any) -> Claim:
    """Claim a directory with everything below it; `said` are the facts in its name or in a more specific one."""
    problem = next(directory.walk_problems(), None)
    fields: dict[str, Any] = {
        "is_best": said.is_best,
        "name_epoch": said.epoch,
        "name_step": said.step,
        "name_metrics": said.metrics,
        "unlisted": problem and f"{problem.what} could not be listed: {problem.reason}",
    }
    return Claim(
        format=format_name,
        shape=Shape.DIRECTORY,
        path=directory.path,
        files=tuple(directory.walk_files()),
        **{**fields, **more},
    )


def read_marker(directory: Directory, reader: Reader, name: str) -> str | None:
    """Return the single word in a marker file beside checkpoints; None if no marker can be read."""
    file = directory.files.get(name)
    if file is None or file.size_bytes > _MARKER_LIMIT:
        return None
    word = read_head(reader, file.path, _MARKER_LIMIT).decode("utf-8", "surrogateescape").strip()
    return word if 0 < len(word) <= NAME_MAX else None


def point_out_newest(claims: list[Claim], directory: Directory, marker: File | None, word: str | None) -> list[Claim]:
    """Return the claims with the statement of a marker file: which one it names, or that the named one is missing."""
    if marker is None:
        return claims
    names = {claim.path.rpartition("/")[2] for claim in claims}
    is_dangling = word is None or (word not in names and word not in directory.directories)
    note = f"{marker.name} names {word}, which is missing" if word else f"{marker.name} names nothing"
    furthest = max(claims, key=_progress, default=None)
    return [
        claim._replace(
            markers=(*claim.markers, marker),
            is_newest=True if claim.path.rpartition("/")[2] == word else claim.is_newest,
            note=note if is_dangling and claim is furthest else claim.note,
        )
        for claim in claims
    ]


def _progress(claim: Claim) -> tuple[int, int]:
    step = -1 if claim.name_step is None else claim.name_step
    return step, max((file.modified_ns for file in claim.files), default=0)
