"""Word the flag about checkpoints that the site's own cleaning will delete."""

import re

from ckptd.present.flag_texts.evidence_reader import EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText
from ckptd.present.formatting import format_count, format_progress

EXTEND_DAYS = 30  # in the command; hpc-workspace shortens what is more than the site allows
_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]*"  # as hpc-workspace demands of users; a shell reads nothing into it
_DONE = {"atime": "accessed", "mtime": "modified", "ctime": "changed"}
_COPY = "to storage that the site does not clean"
_NO_TOUCH = "Many sites forbid `touch` and similar ways to make files look younger."


def will_be_purged(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    if evidence.has("workspace"):
        return _in_a_workspace(evidence, context)
    done = _DONE[evidence.text("purged_by")]
    days = format_count(evidence.count("purged_after_days"), "day")
    since = evidence.instant("counted_from_at")
    bound = ""
    if evidence.is_true("is_earliest"):
        bound = " The site may keep it longer if it was changed since."
        if done == "accessed":
            bound = " The site may keep it longer, because ckptd does not record when files were accessed."
    return FlagText(
        title=context.title,
        statement=(
            f"The site deletes files below {evidence.text('purged_path')} that were not {done} for {days}. The newest "
            f"complete checkpoint of this run is {_name(evidence)}. Its age counts from {since}, so it may be deleted "
            f"from {evidence.instant('goes_at')} on.{bound}"
        ),
        advice=(
            f"Copy this checkpoint before then {_COPY}, or continue the run so that it saves a new one. {_NO_TOUCH}"
        ),
    )


def _in_a_workspace(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    name = evidence.text("workspace")
    is_expired = evidence.is_true("is_expired")
    expires, removal = ("expired", "The site may remove") if is_expired else ("expires", "After that, the site removes")
    statement = (
        f"The workspace {name} ({evidence.text('workspace_directory')}) {expires} at {evidence.instant('goes_at')}. "
        f"{removal} all files in it{' at any time' if is_expired else ''}, including the newest complete checkpoint of "
        f"this run, {_name(evidence)}."
    )
    when = "now" if is_expired else "before then"
    copy = f"Copy this checkpoint {when} {_COPY}"
    if not evidence.is_true("is_own_workspace"):
        return FlagText(
            title=context.title,
            statement=statement,
            advice=f"{copy}, or ask the owner of the workspace to extend it.",
        )
    if evidence.has("extension_count") and evidence.count("extension_count") <= 0:
        return FlagText(
            title=context.title, statement=statement, advice=f"{copy}: the workspace has no extensions left."
        )
    left = ""
    if evidence.has("extension_count"):
        left = f" ({format_count(evidence.count('extension_count'), 'extension')} left)"
    if not re.fullmatch(_NAME, name):
        return FlagText(
            title=context.title, statement=statement, advice=f"{copy}, or extend the workspace{left} with `ws_extend`."
        )
    where = f"-F {evidence.text('workspace_filesystem')} " if evidence.has("workspace_filesystem") else ""
    return FlagText(
        title=context.title,
        statement=statement,
        advice=f"{copy}, or extend the workspace{left}:",
        command=f"ws_extend {where}{name} {EXTEND_DAYS}",
    )


def _name(evidence: EvidenceReader) -> str:
    path = evidence.text("newest_good")
    for unit in ("epoch", "step"):
        if evidence.has(f"newest_good_{unit}"):
            return f"{path} ({unit} {format_progress(evidence.number(f'newest_good_{unit}'))})"
    return path
