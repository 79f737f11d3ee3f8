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
                "Resume from the complete checkpoint. If the program always loads the newest one, move the damaged one "
                "aside first. To avoid damage, write each checkpoint under a temporary name, then rename it."
            ),
        )
    return FlagText(
        title=context.title,
        statement=f"{damaged}, and no complete checkpoint is left.",
        advice=(
            "Make the program save a new checkpoint soon. Write each checkpoint under a temporary name, rename it when "
            "it is complete, and keep at least the newest two."
        ),
    )


def interrupted_save(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    count = evidence.count("leftover_count")
    total = "" if count == 1 else f" ({count:,} leftovers in total)"
    statement = f"A save was interrupted and left {evidence.texts('leftovers')[-1]} behind{total}."
    resume = ""
    if evidence.has("newest_good"):
        resume = f"Resume from {evidence.text('newest_good')}, then delete the leftovers. "
    else:
        statement += " There is no complete checkpoint."
    return FlagText(
        title=context.title,
        statement=statement,
        advice=(
            f"{resume}If the time limit interrupted the save, let Slurm send a signal early enough, and trap it in the "
            "batch script so that the program saves a checkpoint:"
        ),
        command=f"#SBATCH --signal=B:USR1@{evidence.count('signal_seconds')}",
    )


def concurrent_writers(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    others = f"This job and {format_count(evidence.count('other_job_count'), 'other running job')}"
    advice = (
        "Give each job a directory of its own, for example with $SLURM_JOB_ID or $SLURM_ARRAY_TASK_ID in the path: "
        "in a shared one, ckptd cannot tell which job wrote which checkpoint."
    )
    if evidence.is_true("has_overwritten"):
        statement = (
            f"{others} overwrite each other's checkpoints in {evidence.text('directory')}: a checkpoint was followed "
            "by one with less or the same progress."
        )
        advice = f"Cancel all but one of these jobs. {advice}"
    else:
        statement = (
            f"{others} have the same checkpoint directory, {evidence.text('directory')}. If they use the same file "
            "names, they overwrite each other's checkpoints."
        )
        advice = (
            "If each of them uses file names of its own, you need not do anything. Otherwise, cancel all but one. "
            f"{advice}"
        )
    strangers = [user for user in evidence.texts("other_users") if user != clean(context.user)]
    if strangers:
        advice += f" Other users involved: {', '.join(strangers)}; they are notified as well."
    return FlagText(
        title=context.title,
        statement=statement,
        advice=advice,
    )


def volatile_path(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    return FlagText(
        title=context.title,
        statement=(
            f"Checkpoints in {evidence.text('directory')} are on temporary storage: they are lost if the node "
            "fails, and the site may delete them when the job ends."
        ),
        advice=(
            "Save to permanent storage such as the parallel file system, or copy each checkpoint there as soon as it "
            "is complete, not only at the end of the job."
        ),
    )


def no_room(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    is_quota = evidence.has("quota_left_bytes") and evidence.number("room_bytes") == evidence.number("quota_left_bytes")
    kept = [evidence.text(name) for name in ("newest_good", "furthest_good") if evidence.has(name)]
    keep = f" Do not delete {' or '.join(dict.fromkeys(kept))}." if kept else " No complete checkpoint is left."
    return FlagText(
        title=context.title,
        statement=(
            f"The next checkpoint may not fit: {evidence.size('room_bytes')} "
            f"{'is left of the quota' if is_quota else 'is free'}, and a checkpoint takes "
            f"{evidence.size('checkpoint_bytes')}."
        ),
        advice=(
            "Before the next save, ask for more space or delete older checkpoints (this job's checkpoints take "
            f"{evidence.size('held_bytes')} in total).{keep}"
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
            "Before anyone loads the checkpoint, ask the owner of its files which program wrote it. "
            "torch.load(..., weights_only=True) and safetensors load data without running such code."
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
            "Find out who wrote these files before the job loads them. If their owner is a service account of the "
            "site, add its name or uid to service_uids in [health.rules.foreign-owner] of ckptd's configuration."
        ),
    )


def reported_damage(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    count = evidence.count("checkpoint_count")
    others = "" if count == 1 else f" and {format_count(count - 1, 'other')} of this run"
    return FlagText(
        title=context.title,
        statement=f"A verification job found {evidence.text('path')}{others} damaged: {evidence.text('reason')}.",
        advice=(
            "Resume from another checkpoint. ckptd removes nothing from this run until it has read the checkpoint "
            f"itself: `ckptd verify --here {evidence.text('slurm_job')}` does so now."
        ),
    )
