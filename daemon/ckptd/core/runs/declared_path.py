"""The path that a job says it loaded, beside the checkpoints that were there and what its progress shows."""

from collections.abc import Iterable

from ckptd.core.model import Certainty, Resume, ResumeReason
from ckptd.core.runs.saved_state import SavedState


def describe(path: str, there: Iterable[SavedState]) -> Resume:
    """Return what the job says that it loaded: a checkpoint, its directory or a file in it."""
    named = [each for each in there if _is_named(each.path, path)]
    chosen = max(named, key=lambda each: (each.path == path, each.completed_at), default=None)
    return Resume(
        certainty=Certainty.DECLARED,
        reason=ResumeReason.JOB,
        path=chosen.path if chosen else path,
        saved_at=chosen.completed_at if chosen else None,
        evidence={"declared": path},
    )


def _is_named(path: str, name: str) -> bool:
    name = name.rstrip("/")
    return path == name or path.startswith(f"{name}/") or name.startswith(f"{path}/")


def is_contradicted(said: Resume, inferred: Resume) -> bool:
    """Whether the progress of the first own checkpoint rules a declared path out."""
    is_bounded = inferred.reason in {ResumeReason.PROGRESS, ResumeReason.AMBIGUOUS, ResumeReason.PROGRAM}
    if not is_bounded or said.saved_at is None:
        return False
    return said.path not in {each.path for each in inferred.candidates}
