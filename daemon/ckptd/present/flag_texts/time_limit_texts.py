"""Word the flags about time limits: work lost there, goals not reached, and jobs submitted again afterwards."""

import math
from datetime import timedelta

from ckptd.present.flag_texts.evidence_reader import EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText
from ckptd.present.formatting import format_chance, format_count, format_duration, format_likelihood, format_progress


def at_risk(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    lost = evidence.duration("will_be_lost_seconds")
    if evidence.has("maintenance"):
        return FlagText(
            title=context.title,
            statement=(
                f"About {lost} of work may be lost: the nodes of this job are reserved for maintenance "
                f"({evidence.text('maintenance')}) from {evidence.instant('maintenance_at')}, before its time limit."
            ),
            advice=(
                "Slurm lets the job run on, but its nodes may be taken down. Save a checkpoint before then, or ask an "
                "administrator whether the job may continue."
            ),
        )
    if saves := evidence.count("saves_that_fit"):
        expected = f"only {format_count(saves, 'more checkpoint')} {'is' if saves == 1 else 'are'} expected before then"
    else:
        expected = "no further checkpoint is expected before then"
    minutes = _round_up_minutes(evidence)
    return FlagText(
        title=context.title,
        statement=f"{_describe_loss(evidence, lost)}: {expected}.",
        advice=(
            f"{_advise_signal(evidence)} Or save more often. To let this job save once more, ask an administrator to "
            f"extend its time limit by {format_duration(timedelta(minutes=minutes))}:"
        ),
        command=_extend(evidence, minutes),
    )


def _describe_loss(evidence: EvidenceReader, lost: str) -> str:
    """Say that work will be lost if only an earlier end of the job can prevent it; else say how likely the loss is."""
    if evidence.is_true("is_certain"):
        return f"If the job runs until its time limit, about {lost} of work will be lost"
    chance = evidence.number("chance")
    return (
        f"About {lost} of work may be lost at the time limit. This is {format_likelihood(chance)} "
        f"(probability {format_chance(chance)})"
    )


def _advise_signal(evidence: EvidenceReader) -> str:
    needed = evidence.count("signal_seconds")
    if not evidence.has("asked_signal"):
        return (
            f"To save a checkpoint just before the limit, submit the next job with --signal=B:USR1@{needed}, and trap "
            "USR1 in the batch script so that the program saves (without a trap, USR1 ends the job)."
        )
    signal, lead = evidence.text("asked_signal"), evidence.count("asked_signal_seconds")
    if evidence.has("save_seconds") and lead < evidence.number("save_seconds"):
        return (
            f"The batch script requests {signal} {lead} s before the limit, which is too late to save a checkpoint. "
            f"Request it earlier with #SBATCH --signal={signal}@{needed}."
        )
    return (
        f"The batch script requests {signal} {lead} s before the limit, but ckptd has not yet seen a checkpoint follow "
        "this signal. Check that it reaches the program (with B:, Slurm signals only the batch shell) and that the "
        "program then saves."
    )


def will_not_finish(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    fits, unit = evidence.count("fits"), evidence.text("unit")
    minutes = _round_up_minutes(evidence)
    reaches = format_progress(evidence.number("reached") + fits)
    return FlagText(
        title=context.title,
        statement=(
            f"At its current pace, this job will not reach its goal before the time limit: "
            f"{format_count(fits, f'more {unit}')} {'fits' if fits == 1 else 'fit'}, up to {unit} {reaches} of "
            f"{evidence.progress('goal')}."
        ),
        advice=(
            f"Submit a job that continues this one (--dependency=afterany:{evidence.text('slurm_job')}), or ask an "
            f"administrator to extend its time limit by {format_duration(timedelta(minutes=minutes))}:"
        ),
        command=_extend(evidence, minutes),
    )


def _round_up_minutes(evidence: EvidenceReader) -> int:
    """Return the time that the job lacks in minutes, the unit of TimeLimit."""
    return max(math.ceil(evidence.number("missing_seconds") / 60), 1)


def _extend(evidence: EvidenceReader, minutes: int) -> str:
    return f"scontrol update JobId={evidence.text('slurm_job')} TimeLimit=+{minutes}"


def not_resubmitted(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    if evidence.is_true("is_waited_for"):
        return FlagText(
            title=context.title,
            statement=(
                "This job reached its time limit. ckptd does not resubmit it because another job of yours, pending or "
                "just started in the same working directory, may continue its work, and both would then write to the "
                "same directory."
            ),
            advice="If that job does not continue this one, resubmit this one yourself.",
        )
    return FlagText(
        title=context.title,
        statement=f"This job reached its time limit, and ckptd did not resubmit it: {evidence.text('reason')}.",
        advice="To continue, resubmit the job yourself and let it resume from its newest checkpoint.",
    )


def resubmitted(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    statement = (
        f"ckptd submitted this job because job {evidence.count('ended_job')} reached its time limit and .ckptd.toml "
        "sets `resubmit`."
    )
    if evidence.has("goes_on_from"):
        statement += f" At that time, the newest checkpoint to resume from was {evidence.text('goes_on_from')}."
    check = ""
    if not evidence.is_true("has_submit_line"):
        check = (
            "Check that the job has all options that it needs: those given only on the command line of the first "
            "submission, such as --signal, are lost because Slurm's accounting has no submit line of that job. "
        )
    return FlagText(
        title=context.title,
        statement=statement,
        advice=f"{check}To end the resubmissions, remove `resubmit` from .ckptd.toml and cancel the job:",
        command=f"scancel {evidence.text('slurm_job')}",
    )
