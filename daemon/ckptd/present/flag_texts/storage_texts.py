"""Word the flags about checkpoints on disk: damaged, unsafe, foreign, in the wrong place or without space."""

from ckptd.present.flag_texts.evidence_reader import EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText
from ckptd.present.formatting import clean, format_count

NAMED = 3  # callables or owners in a sentence; the evidence has the others


def damaged_checkpoint(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    damaged = f"The newest checkpoint, {evidence.text('path')}, is damaged"
    if evidence.has("newest_good"):
        return FlagText(
            title=context.title,
            statement=f"{damaged}. The newest complete checkpoint is {evidence.text('newest_good')}.",
            advice=(
                "Do not resume from the damaged one: resume from the complete one, or move the damaged one aside. To "
                "avoid damage, write each checkpoint under a temporary name, then rename it."
            ),
        )
    return FlagText(
        title=context.title,
        statement=f"{damaged}, and no complete checkpoint is left.",
        advice=(
            "Have the job save a new one soon: write it under a temporary name, rename it once it is complete, and "
            "keep at least the newest two checkpoints."
        ),
    )


def interrupted_save(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    statement = f"A save was interrupted and left {evidence.texts('leftovers')[-1]} behind."
    resume = ""
    if evidence.has("newest_good"):
        resume = f"Resume from {evidence.text('newest_good')}, then delete the leftover files. "
    else:
        statement += " There is no complete checkpoint."
    return FlagText(
        title=context.title,
        statement=statement,
        advice=f"{resume}If the time limit interrupted the save, request a signal earlier:",
        command=f"#SBATCH --signal=B:USR1@{evidence.count('signal_seconds')}",
    )


def concurrent_writers(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    advice = (
        "Cancel all but one, or give each its own directory, for example with $SLURM_JOB_ID or $SLURM_ARRAY_TASK_ID "
        "in its path."
    )
    strangers = [user for user in evidence.texts("other_users") if user != clean(context.user)]
    if strangers:
        advice += f" Other users involved: {', '.join(strangers)}; they are notified as well."
    return FlagText(
        title=context.title,
        statement=(
            f"This job and {format_count(evidence.count('other_job_count'), 'other running job')} share one checkpoint "
            "directory and will overwrite each other's checkpoints."
        ),
        advice=advice,
    )


def volatile_path(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    return FlagText(
        title=context.title,
        statement=(
            f"Checkpoints in {evidence.text('directory')} are on temporary storage: they are lost with the node or "
            "deleted by the site's cleanup."
        ),
        advice=(
            "Save to the parallel file system, or copy each checkpoint there as soon as it is complete, not only at "
            "the end of the job."
        ),
    )


def no_room(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    is_quota = evidence.has("quota_left_bytes") and evidence.number("room_bytes") == evidence.number("quota_left_bytes")
    kept = [evidence.text(name) for name in ("newest_good", "furthest_good") if evidence.has(name)]
    over = "over " if evidence.is_true("is_held_partial") else ""
    return FlagText(
        title=context.title,
        statement=(
            f"The next checkpoint may not fit: {evidence.size('room_bytes')} "
            f"{'is left of the quota' if is_quota else 'is free'}, and a checkpoint takes "
            f"{evidence.size('checkpoint_bytes')}."
        ),
        advice=(
            f"Before the next one, delete older checkpoints of this run ({over}{evidence.size('held_bytes')} in total) "
            f"but not {' nor '.join(dict.fromkeys(kept))}, or ask for more space."
        ),
    )


def unsafe_pickle(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    count = evidence.count("checkpoint_count")
    names = evidence.texts("names")
    more = evidence.count("name_count") - NAMED
    return FlagText(
        title=context.title,
        statement=(
            f"Loading {'a checkpoint' if count == 1 else f'{count:,} checkpoints'} of this run would call code that is "
            f"not known to be safe: {', '.join(names[:NAMED])}{f' and {more:,} more' if more > 0 else ''}."
        ),
        advice=(
            "Ask the owner which program wrote it before anyone loads it. torch.load(..., weights_only=True) and "
            "safetensors load without calling anything."
        ),
    )


def foreign_owner(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    count = evidence.count("checkpoint_count")
    return FlagText(
        title=context.title,
        statement=(
            f"{format_count(count, 'checkpoint')} of this run {'has' if count == 1 else 'have'} files that belong to "
            f"another user (uid {', '.join(evidence.texts('owner_uids')[:NAMED])}), and the job may load them."
        ),
        advice=(
            "Find out why. If the owner is a service account of the site, add its name or uid to `service_uids` of the "
            "rule foreign-owner."
        ),
    )
