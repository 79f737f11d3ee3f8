"""`ckptd inspect`: recognise and check checkpoints without daemon, database, configuration or privileges."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import click

from ckptd.cli import layout, output
from ckptd.cli.inspected_copies import find_copies
from ckptd.core.model import Checkpoint, CheckpointState, Level

if TYPE_CHECKING:  # pydantic would double the time that this command takes to start
    from ckptd.checkpoints.scanning.inspection import Inspection
    from ckptd.checkpoints.scanning.links import Link
    from ckptd.present.responses.field_types import ReasonedPath
    from ckptd.present.responses.inspect_documents import InspectDocument, InspectedDocument, MemberDocument

_COLOURS = {"complete": "green", "writing": "cyan", "damaged": "bright_red", "unknown": "yellow"}


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=False))
@click.option(
    "--verify",
    type=click.Choice([Level.STRUCTURE.value, Level.FULL.value]),
    default=Level.STRUCTURE.value,
    show_default=True,
    help="structure: check headers, indexes and sizes. full: also read every byte and verify all checksums.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def inspect(paths: tuple[str, ...], verify: str, as_json: bool) -> None:
    """Recognise and check checkpoints.

    PATH is a file, a directory, or the prefix of a checkpoint with several files, as passed to its framework.

    The exit status is 1 if a checkpoint is damaged, unreadable or unsafe to load, and 2 if a PATH cannot be read.
    """
    now = datetime.now(UTC)
    inspections: list[Inspection] = []
    errors: list[ReasonedPath] = []
    is_wrong_usage = False
    for path in paths:
        try:
            inspections.append(_inspect(path, Level(verify), now))
        except (OSError, ValueError) as error:
            is_wrong_usage = True
            errors.append({"path": path, "reason": getattr(error, "strerror", None) or str(error)})
    copies = find_copies(checkpoint for one in inspections for checkpoint in one.checkpoints)
    documents = [document for one in inspections for document in _documents(one)]
    for document in documents:
        document["locations"] = copies.get(document["path"], [])
    errors += [
        {"path": str(one.root / problem.what), "reason": problem.reason}
        for one in inspections
        for problem in one.problems
    ]
    unrecognised = [str(one.root / path) for one in inspections for path in one.unrecognised]
    if as_json:
        whole: InspectDocument = {"checkpoints": documents, "unrecognised": unrecognised, "errors": errors}
        output.print_json(whole)
    else:
        _print(documents, errors, _newest(inspections), now)
    is_trouble = bool(errors) or any(
        document["state"] in {"damaged", "unknown"} or document["unsafe"] for document in documents
    )
    sys.exit(output.EXIT_USAGE if is_wrong_usage else output.EXIT_TROUBLE if is_trouble else output.EXIT_FINE)


def _inspect(path: str, level: Level, now: datetime) -> "Inspection":
    """Inspect one path together with its siblings, whose names can help to recognise it.

    Raises:
        ValueError: the path does not exist or is not a checkpoint.
        OSError: the path cannot be read.

    """
    from ckptd.checkpoints.scanning.inspection import inspect_tree  # noqa: PLC0415 - it imports every format

    root, entry = os.path.split(os.path.realpath(path))
    if not os.path.lexists(path) and not os.path.isdir(root):
        raise ValueError("no such file or directory")
    with _progress(level) as progress:
        if os.path.isdir(path) and (not entry or not os.access(root, os.R_OK)):
            return inspect_tree(os.path.realpath(path), now=now, level=level, progress=progress)
        found = inspect_tree(root, entry=entry, now=now, level=level, progress=progress)
    if not os.path.isdir(path) and not found.checkpoints and not found.links:
        raise ValueError("not recognised as a checkpoint" if os.path.lexists(path) else "no such file or directory")
    return found


@contextmanager
def _progress(level: Level) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on a terminal during full verification; without a thread, because children are forked."""
    if level is not Level.FULL or not sys.stderr.isatty():
        yield None
        return
    from ckptd.cli import progress_bar  # noqa: PLC0415 - only such a terminal needs rich

    with progress_bar.show() as advance:
        yield advance


def _documents(inspection: "Inspection") -> "Iterator[InspectedDocument]":
    for checkpoint in inspection.checkpoints:
        yield describe_checkpoint(checkpoint)
    for link in inspection.links:
        yield _link_document(inspection.root, link)


def describe_checkpoint(checkpoint: Checkpoint) -> "InspectedDocument":
    """Return a checkpoint as the JSON of commands shows it."""
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "files": list(checkpoint.files),
        "size_bytes": checkpoint.size_bytes,
        "modified_at": checkpoint.modified_at.isoformat(),
        "state": checkpoint.state,
        "reason": checkpoint.reason,
        "level": checkpoint.level,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "is_best": checkpoint.is_best,
        "metrics": dict(checkpoint.metrics),
        "unsafe": list(checkpoint.unsafe),
        "role": checkpoint.role,
        "role_evidence": checkpoint.role_evidence,
        "is_result": checkpoint.is_result,
        "members": [_member_document(part, checkpoint.path.parent) for part in checkpoint.parts],
        "series": checkpoint.grouping.series,
        "progress": list(checkpoint.grouping.progress),
        "progress_evidence": checkpoint.grouping.evidence,
        "grouping_doubt": checkpoint.grouping.doubt,
        "locations": [],
    }


def _member_document(part: Checkpoint, parent: PurePosixPath) -> "MemberDocument":
    return {
        "path": str(part.path.relative_to(parent)),
        "format": part.format,
        "role": part.role,
        "state": part.state,
        "reason": part.reason,
    }


def _link_document(root: PurePosixPath, link: "Link") -> "InspectedDocument":
    """Describe the target of a link under the link's own path."""
    path = root / link.path
    if link.checkpoint is None:
        return {
            "path": str(path),
            "format": "link",
            "files": [],
            "size_bytes": None,
            "modified_at": None,
            "state": CheckpointState.DAMAGED,
            "reason": link.problem,
            "level": Level.STRUCTURE,
            "epoch": None,
            "step": None,
            "is_best": None,
            "metrics": {},
            "unsafe": [],
            "role": None,
            "role_evidence": "",
            "is_result": False,
            "members": [],
            "series": "",
            "progress": [],
            "progress_evidence": "",
            "grouping_doubt": None,
            "locations": [],
        }
    meant = link.checkpoint
    files = [os.path.relpath(meant.path.parent / file, path.parent) for file in meant.files]
    return {
        **describe_checkpoint(meant),
        "path": str(path),
        "files": files,
        "reason": meant.reason or f"a link to {link.target}",
    }


def _newest(inspections: "Sequence[Inspection]") -> set[str]:
    """Return the newest complete checkpoint of each directory and format; a marker of the format takes precedence."""
    newest: dict[tuple[PurePosixPath, str], Checkpoint] = {}
    for checkpoint in (checkpoint for one in inspections for checkpoint in one.checkpoints):
        if checkpoint.state is CheckpointState.COMPLETE:
            place = (checkpoint.path.parent, checkpoint.format)
            newest[place] = max(newest.get(place, checkpoint), checkpoint, key=_age_key)
    return {str(checkpoint.path) for checkpoint in newest.values()}


def _age_key(checkpoint: Checkpoint) -> tuple[bool, datetime, float]:
    progress = checkpoint.step if checkpoint.step is not None else checkpoint.epoch
    return checkpoint.is_newest is True, checkpoint.modified_at, -1.0 if progress is None else float(progress)


def _print(
    documents: "Sequence[InspectedDocument]", errors: "Sequence[ReasonedPath]", newest: set[str], now: datetime
) -> None:
    shared = os.path.commonpath([os.path.dirname(document["path"]) for document in documents]) if documents else "/"
    rows = [
        [
            os.path.relpath(document["path"], shared),
            document["format"],
            _format_number(document["epoch"]),
            document["step"],
            output.format_size(document["size_bytes"]),
            _format_age(document["modified_at"], now),
            layout.Cell(document["state"], _COLOURS[document["state"]]),
            document["role"],
            _format_remarks(document, document["path"] in newest),
        ]
        for document in sorted(documents, key=_order)
    ]
    if documents:
        click.echo(f"in {output.safe(shared)}")
    headings = ("checkpoint", "format", "epoch", "step", "size", "age", "state", "role", "notes")
    output.print_table(headings, rows, "No checkpoint found.")
    for error in errors:
        click.echo(f"{output.safe(error['path'])}: {output.safe(error['reason'])}", err=True)


def _order(document: "InspectedDocument") -> tuple[str, str, str]:
    return os.path.dirname(document["path"]), document["modified_at"] or "", document["path"]


def _format_number(number: float | None) -> str | None:
    return None if number is None else f"{number:.6g}" if isinstance(number, float) else str(number)


def _format_age(modified_at: str | None, now: datetime) -> str:
    return output.format_duration(None if modified_at is None else now - datetime.fromisoformat(modified_at))


def _format_remarks(document: "InspectedDocument", is_newest: bool) -> str:
    parts = ["best"] if document["is_best"] else []
    parts += ["newest"] if is_newest else []
    parts += [document["reason"]] if document["reason"] else []
    parts += [f"{len(document['files'])} files"] if len(document["files"]) > 1 else []
    parts += [f"grouping unknown: {doubt}"] if (doubt := document["grouping_doubt"]) else []
    parts += ["unsafe pickle: " + ", ".join(document["unsafe"])] if document["unsafe"] else []
    return "; ".join(parts)
