"""Every sentence about a flag, made from the evidence that its rule returned.

Texts are made when they are read, so that a new wording also applies to recorded flags. Nothing here decides
anything. To add a text for a new rule: one function in the module of its subject, one line in TEXTS, and its title in
`present.labels`.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Protocol

from ckptd.core.model import Evidence
from ckptd.present.flag_texts import (
    copy_texts,
    interval_texts,
    mail_texts,
    purge_texts,
    restart_texts,
    storage_texts,
    time_limit_texts,
)
from ckptd.present.flag_texts.evidence_reader import EvidenceError, EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText
from ckptd.present.labels import title_of

TEXTS: dict[str, Callable[[EvidenceReader, FlagContext], FlagText]] = {
    "restarted-without-checkpoint": restart_texts.restarted_without_checkpoint,
    "checkpoints-not-located": restart_texts.checkpoints_not_located,
    "no-checkpoint-yet": interval_texts.no_checkpoint_yet,
    "checkpoint-overdue": interval_texts.checkpoint_overdue,
    "at-risk": time_limit_texts.at_risk,
    "damaged-checkpoint": storage_texts.damaged_checkpoint,
    "copy-behind": copy_texts.copy_behind,
    "copy-differs": copy_texts.copy_differs,
    "interrupted-save": storage_texts.interrupted_save,
    "not-resuming": restart_texts.not_resuming,
    "restart-loop": restart_texts.restart_loop,
    "job-held": restart_texts.job_held,
    "not-resubmitted": time_limit_texts.not_resubmitted,
    "resubmitted": time_limit_texts.resubmitted,
    "concurrent-writers": storage_texts.concurrent_writers,
    "too-frequent": interval_texts.too_frequent,
    "too-sparse": interval_texts.too_sparse,
    "volatile-path": storage_texts.volatile_path,
    "will-be-purged": purge_texts.will_be_purged,
    "no-room": storage_texts.no_room,
    "will-not-finish": time_limit_texts.will_not_finish,
    "not-requeueable": restart_texts.not_requeueable,
    "unsafe-pickle": storage_texts.unsafe_pickle,
    "reported-damage": storage_texts.reported_damage,
    "foreign-owner": storage_texts.foreign_owner,
    "mail-held-back": mail_texts.mail_held_back,
    "test-message": mail_texts.sample_message,
}


class Recorded(Protocol):
    """A finding or a notice."""

    @property
    def rule(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def evidence(self) -> Mapping[str, Evidence]: ...
    @property
    def recorded_advice(self) -> str: ...


def make_text(rule: str, evidence: Mapping[str, Evidence], *, user: str, zone: tzinfo | None = UTC) -> FlagText:
    """Return the text of a rule's evidence, with instants in a time zone; None means this host's zone.

    Raises:
        EvidenceError: the evidence lacks a value, or no rule has this name.

    """
    if rule not in TEXTS:
        raise EvidenceError(f"there is no text for the rule {rule!r}")
    return TEXTS[rule](EvidenceReader(evidence, zone), FlagContext(title=title_of(rule), user=user))


def make_recorded_text(shown: Recorded, zone: tzinfo | None = UTC) -> FlagText:
    """Return the text of a flag or notice that may have been recorded by an earlier version of ckptd.

    Such a flag has a text of its own, which is shown, and may lack evidence that the current text needs. A flag of a
    rule that was removed may have neither.
    """
    if shown.recorded_advice:
        return FlagText(title=title_of(shown.rule), statement="", advice=shown.recorded_advice)
    try:
        return make_text(shown.rule, shown.evidence, user=shown.user, zone=zone)
    except EvidenceError:
        return FlagText(
            title=title_of(shown.rule),
            statement="This version of ckptd cannot describe this flag from the evidence that was recorded.",
            advice="Read the evidence. `ckptd show JOB` prints all that ckptd knows about the job.",
        )


__all__ = ["TEXTS", "EvidenceError", "FlagText", "make_recorded_text", "make_text"]
