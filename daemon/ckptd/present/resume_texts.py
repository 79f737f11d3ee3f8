"""Say what an attempt resumed from, how surely, and why, identically in the terminal, in mail and on pages."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ckptd.core.model import Certainty, Resume, ResumeReason
from ckptd.present.formatting import format_count, format_duration, format_progress

if TYPE_CHECKING:  # `ckptd show` starts without pydantic
    from ckptd.present.responses.run_documents import ResumeDocument

_UNKNOWN = {
    ResumeReason.NOT_SAVED: "it has not completed a checkpoint of its own",
    ResumeReason.NO_PROGRESS: "its first checkpoint does not state its progress",
    ResumeReason.NO_RATE: "ckptd has not observed yet how fast this run progresses",
    ResumeReason.CONCURRENT: "another job ran in the same directory at that time",
    ResumeReason.NOT_READ: "ckptd could not read the whole directory",
}

_SHOWN_EQUALS = 3  # copies of one save that are named


def resume_row(resume: Resume | None, directory: str) -> "ResumeDocument | None":
    """Return what an attempt resumed from as JSON; None while nothing is known of it."""
    if resume is None:
        return None
    return {
        "path": resume.path,
        "certainty": resume.certainty,
        "reason": resume.reason,
        "evidence": dict(resume.evidence),
        "candidates": list(dict.fromkeys(each.path for each in resume.candidates)),  # of a path both contents
        "equals": list(resume.equals),
        "may_be_fresh": resume.may_be_fresh,
        "text": describe_resume(resume, directory),
    }


def describe_resume(resume: Resume, directory: str) -> str:
    """Complete the phrase "resumed from ..."; paths are relative to the run's directory."""
    text = _describe_known(resume, directory) if resume.is_known else _describe_unknown(resume)
    declared = resume.evidence.get("declared")
    if declared is not None and resume.certainty is not Certainty.DECLARED:
        text += f"; the job says that it loaded {_name(str(declared), directory)}, which its progress contradicts"
    return text


def _describe_known(resume: Resume, directory: str) -> str:
    source = _name(resume.path, directory) if resume.path is not None else "nothing"
    if resume.certainty is Certainty.PROVEN:
        return f"{source}, as the program's own files show"
    if resume.certainty is Certainty.DECLARED:
        return f"{source}, as the job says"
    if resume.reason is ResumeReason.EMPTY:
        return "nothing: no complete checkpoint was there when it started"
    if resume.reason is ResumeReason.PROGRAM:
        return (
            f"{source}, probably: the program's own files show that it continued, and the other checkpoints are backups"
        )
    if resume.reason is ResumeReason.ACCESS:
        return f"{source}, probably: {_describe_read(resume.evidence)}"
    first = _describe_first(resume.evidence)
    if resume.path is None:
        return f"nothing, probably: {first}, as after a start without a checkpoint"
    if resume.equals:
        source = _name_equals(source, [_name(path, directory) for path in resume.equals], resume.evidence["unit"])
    return f"{source}, probably: {first}, {_describe_gained(resume.evidence)}"


def _describe_unknown(resume: Resume) -> str:
    if resume.reason is ResumeReason.PROGRAM:
        choices = format_count(len(resume.candidates), "checkpoint")
        return f"one of {choices}: the program's own files show that it continued, but not from which"
    if resume.reason is ResumeReason.AMBIGUOUS:
        choices = format_count(len(resume.candidates), "checkpoint")
        fresh = ", or none of them" if resume.may_be_fresh else ""
        return f"one of {choices}{fresh}: {_describe_first(resume.evidence)}"
    if resume.reason is ResumeReason.CONTRADICTION:
        return (
            f"an unknown checkpoint: {_describe_first(resume.evidence)}, which no checkpoint that existed then explains"
        )
    if resume.reason is ResumeReason.COUNTED_ANEW:
        first = _describe_first(resume.evidence)
        return f"nothing, or an unknown checkpoint: {first}, and its program may count from 0 after a resume, too"
    if resume.reason is ResumeReason.OTHER_NAMES:
        first = _describe_first(resume.evidence)
        return f"nothing, or an unknown checkpoint: {first}, and no checkpoint before it had a name like that"
    source = "nothing, or an unknown checkpoint" if resume.may_be_fresh else "an unknown checkpoint"
    return f"{source}: {_UNKNOWN.get(resume.reason, 'nothing shows which')}"


def _describe_first(evidence: Mapping[str, Any]) -> str:
    after = format_duration(timedelta(seconds=evidence["seconds_after_start"]))
    first = format_progress(evidence["first_saved"])
    return f"its first checkpoint was {evidence['unit']} {first}, {after} after the start"


def _name_equals(source: str, equals: Sequence[str], unit: object) -> str:
    """Name a checkpoint and the copies of the same save beside it."""
    shown, more = list(equals), len(equals) - _SHOWN_EQUALS
    if more > 0:
        shown = [*equals[: _SHOWN_EQUALS - 1], f"one of {more + 1} more"]
    *names, last = [source, *shown]
    return f"{', '.join(names)} or {last}, which are at the same {unit}"


def _describe_read(evidence: Mapping[str, Any]) -> str:
    after = format_duration(timedelta(seconds=evidence["seconds_until_read"]))
    others = "the other checkpoint" if evidence["unread_count"] == 1 else f"the other {evidence['unread_count']}"
    was = "was" if evidence["unread_count"] == 1 else "were"
    return f"it was read {after} after the start, and {others} that it may have loaded {was} not"


def _describe_gained(evidence: Mapping[str, Any]) -> str:
    gained = format_progress(evidence["first_saved"] - evidence["loaded"])
    if gained == "0":
        return "the progress of that one"
    return f"{gained} {evidence['unit']}{'' if gained == '1' else 's'} after that one"


def _name(path: str, directory: str) -> str:
    """Return a path relative to the run's directory if it is below it, else the path itself."""
    found = PurePosixPath(path)
    return str(found.relative_to(directory)) if found.is_relative_to(directory) and path != directory else path
