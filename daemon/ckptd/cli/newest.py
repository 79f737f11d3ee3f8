"""`ckptd newest`: print the newest complete checkpoint, for job scripts; needs no daemon and no configuration.

Exit status 1 makes a job script start from the beginning. Every failure therefore ends with 3, even a crash.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from ckptd.cli import output
from ckptd.cli.standard_output import UnwritableOutputError
from ckptd.core.model import Checkpoint, Level, Unknown
from ckptd.core.runs.newest_complete import Elsewhere, NewestComplete
from ckptd.present.formatting import format_duration, safe

if TYPE_CHECKING:
    from ckptd.present.responses.inspect_documents import NewestDocument

Outcome = Literal["found", "none", "unknown"]
_STATUS: dict[Outcome, int] = {"found": output.EXIT_FINE, "none": output.EXIT_TROUBLE, "unknown": output.EXIT_UNKNOWN}


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--verify",
    type=click.Choice([Level.STRUCTURE.value, Level.FULL.value]),
    default=Level.STRUCTURE.value,
    show_default=True,
    help="full: also read every byte of the checkpoint that is printed; if it is damaged, try the one before it.",
)
@click.option("--step", type=click.IntRange(min=0), metavar="N", help="Consider only checkpoints of step N.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="Stop with status 3 if the file system has not answered, or returned no bytes, for this time.",
)
@click.option("-0", "--null", "is_null", is_flag=True, help="End the path with a NUL character, not with a newline.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def newest(
    directories: tuple[str, ...], verify: str, step: int | None, timeout: float, is_null: bool, as_json: bool
) -> None:
    """Print the path of the newest complete checkpoint below DIR.

    Use it in a job script to resume from that checkpoint. The exit status is 0 if there is one, 1 if there is none, and
    3 if that is unknown: a directory or checkpoint cannot be read, or the file system does not answer. On 3, do not
    start from the beginning: that could overwrite valid checkpoints.
    """
    try:
        _run(directories, Level(verify), step, timeout, is_null=is_null, as_json=as_json)
    except click.UsageError:
        raise
    except UnwritableOutputError as error:
        if error.is_pipe_closed:
            raise
        _fail(str(error))
    except Exception as error:  # noqa: BLE001 - as a status of 1 it would start a job from the beginning
        _fail(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        _fail("interrupted")


def _run(
    directories: tuple[str, ...], level: Level, step: int | None, timeout: float, *, is_null: bool, as_json: bool
) -> None:
    choice = _find(directories, level, step, timeout)
    outcome: Outcome = "found" if choice.chosen is not None else "unknown" if choice.unknown else "none"
    _explain(choice, outcome, directories)
    if as_json:
        output.print_json(_document(choice, outcome))
    elif choice.chosen is not None:
        path = os.fsencode(str(choice.chosen.path))
        sys.stdout.buffer.write(path + (b"\0" if is_null else b"\n"))
    sys.stdout.flush()
    sys.exit(_STATUS[outcome])


def _find(directories: tuple[str, ...], level: Level, step: int | None, timeout: float) -> NewestComplete:
    """Search in a child process, so that a dead file system cannot hang the command.

    Raises:
        click.UsageError: a path is no directory.

    """
    for each in directories:
        if not each or "\0" in each:
            raise click.UsageError(f"{each!r} is not the path of a directory")
    here = os.getcwd()
    absolute = [os.path.join(here, each).rstrip("/") or "/" for each in directories]

    from ckptd.checkpoints.agent import abandonable_child  # noqa: PLC0415 - wrong usage needs none of it
    from ckptd.checkpoints.scanning import find_newest as search  # noqa: PLC0415 - and it imports every format

    def work(progress: search.Progress) -> dict[str, Any]:
        try:
            return search.find_newest(absolute, level, step, progress)
        except search.NotADirectoryGivenError as error:
            return {"usage": str(error)}

    answer = abandonable_child.run(work, timeout)
    if isinstance(answer, Unknown):
        return NewestComplete(unknown=tuple(Unknown(what=each, reason=answer.reason) for each in absolute))
    if "usage" in answer:
        raise click.UsageError(safe(answer["usage"]))
    return search.decode(answer)


def _explain(choice: NewestComplete, outcome: Outcome, directories: Sequence[str]) -> None:
    """Print to stderr, for the job's log, what was skipped or unknown and why."""
    for each in choice.skipped:
        _print_error(f"skipped {each.path}: {each.state}" + (f" ({each.reason})" if each.reason else ""))
    if choice.chosen is not None:
        for note in choice.notes:
            _print_error(f"{choice.chosen.path}: {note}")
    for unknown in choice.unknown:
        _print_error(f"unknown: {unknown.what}: {unknown.reason}")
    if outcome == "none":
        _print_error(f"no complete checkpoint below {' or '.join(directories)}")
    for other in choice.elsewhere:
        _print_error(_describe_elsewhere(other, choice.chosen))


def _describe_elsewhere(other: Elsewhere, chosen: Checkpoint | None) -> str:
    """Say how a checkpoint of another directory compares with the one that is printed."""
    if chosen is None:
        return f"another directory holds one: {other.checkpoint.path}"
    found, parts = other.checkpoint, []
    if other.is_further:
        unit = "step" if found.step is not None and chosen.step is not None else "epoch"
        theirs, ours = (each.step if unit == "step" else each.epoch for each in (found, chosen))
        parts.append(f"further ({unit} {theirs:.12g}, the printed one {unit} {ours:.12g})")
    after = found.modified_at - chosen.modified_at
    if after:
        word, apart = ("newer", "later") if after > timedelta() else ("older", "earlier")
        parts.append(f"{word} (written {format_duration(abs(after))} {apart})")
    role = "" if found.role is chosen.role else f"; its role is {found.role}"
    return f"another directory holds one that is {' and '.join(parts)}: {found.path}{role}"


def _print_error(text: str) -> None:
    with suppress(OSError):  # stderr may be unwritable; the status must still be that of the answer
        click.echo(f"ckptd newest: {safe(text)}", err=True)


def _fail(reason: str) -> NoReturn:
    _print_error(f"unknown: {reason}")
    sys.exit(output.EXIT_UNKNOWN)


def _document(choice: NewestComplete, outcome: Outcome) -> "NewestDocument":
    from ckptd.cli.inspect import describe_checkpoint  # noqa: PLC0415 - only this option needs it

    return {
        "outcome": outcome,
        "path": None if choice.chosen is None else str(choice.chosen.path),
        "checkpoint": None if choice.chosen is None else describe_checkpoint(choice.chosen),
        "notes": list(choice.notes),
        "elsewhere": [
            {
                "path": str(each.checkpoint.path),
                "is_further": each.is_further,
                "is_newer": each.is_newer,
                "role": each.checkpoint.role,
                "epoch": each.checkpoint.epoch,
                "step": each.checkpoint.step,
                "modified_at": each.checkpoint.modified_at.isoformat(),
            }
            for each in choice.elsewhere
        ],
        "skipped": [{"path": str(each.path), "state": each.state, "reason": each.reason} for each in choice.skipped],
        "unknown": [{"path": each.what, "reason": each.reason} for each in choice.unknown],
    }
