"""Word the flags about how often a job saves: never yet, no longer, too often or too rarely."""

from ckptd.present.flag_texts import unrecognised_file
from ckptd.present.flag_texts.evidence_reader import EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText
from ckptd.present.formatting import format_count

_LOST = "If the job ends early, all of its work so far is lost."
_REPLACES = "(this replaces the job's comment)"
_IN_LATER_JOBS = "--comment=ckpt=PATH or `directory` in .ckptd.toml"

NAMED = 3  # directories in a sentence; the evidence has the others


def no_checkpoint_yet(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    """Word the flag; the directory of a running job cannot be changed once ckptd has found one."""
    update = f"scontrol update JobId={evidence.text('slurm_job')} Comment=ckpt="
    command = None
    if evidence.has("unmet_names"):
        statement = (
            "No checkpoint has been saved since the job started, and a directory that the job's comment or .ckptd.toml "
            f"names does not exist: {', '.join(evidence.texts('unmet_names')[:NAMED])}."
        )
        advice = (
            "Check the path, and whether the job creates the directory; a relative path starts at the job's working "
            f"directory. {_LOST}"
        )
    elif (file := unrecognised_file.describe(evidence)) is not None and evidence.has("directory"):
        statement = (
            f"ckptd cannot tell whether this job saves checkpoints: since it started, ckptd found none of a known "
            f"format in {evidence.text('directory')}, but other files: {file}."
        )
        advice = unrecognised_file.ADVICE
    elif evidence.has("directory"):
        statement = f"No checkpoint has been saved in {evidence.text('directory')} since the job started. {_LOST}"
        advice = (
            f"If the job saves elsewhere, name that directory for the next job: {_IN_LATER_JOBS}. If the job has no "
            f"checkpoints by design, tell ckptd: {update}none {_REPLACES}, and --comment=ckpt=none for later jobs."
        )
    else:
        statement = f"No checkpoint of this job has been found since it started. {_LOST}"
        advice = (
            f"If the job has no checkpoints by design, tell ckptd: {update}none {_REPLACES}, and --comment=ckpt=none "
            f"for later jobs. If it saves checkpoints, name their directory for later jobs ({_IN_LATER_JOBS}) and for "
            f"this one {_REPLACES}:"
        )
        command = f"{update}PATH"
    if evidence.is_true("is_signalled_later"):
        statement += " The job gets a signal before its time limit, and may save only then."
    if others := evidence.count("other_tasks"):
        statement += f" The same is true of {format_count(others, 'other task')} of its array."
    return FlagText(title=context.title, statement=statement, advice=advice, command=command)


def checkpoint_overdue(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    """Word the flag; a job whose directory was found by a search may save elsewhere now."""
    age, usual = evidence.duration("age_seconds"), evidence.duration("interval_seconds")
    read = "Read"
    if evidence.has("located_by") and evidence.text("located_by") == "discovery":
        read = f"If the job saves elsewhere now, name that directory for later jobs: {_IN_LATER_JOBS}. Otherwise, read"
    directory = evidence.text("directory")
    statement = f"No checkpoint has been saved in {directory} for {age}; the job usually saves one every {usual}."
    if evidence.is_true("saves_on_improvement"):
        statement = (
            f"No checkpoint has been saved in {directory} for {age}. The job seems to save only when a measured value "
            "improves. Such a job has no regular interval, and a longer time without a checkpoint is normal."
        )
        read = f"Save at regular intervals, too, so that a restart loses little. {read}"
    return FlagText(
        title=context.title,
        statement=statement,
        advice=(
            f"{read} the job's output, and check whether the disk or quota is full. If the job hangs, cancel it "
            f"(scancel {evidence.text('slurm_job')}) and resume from the newest checkpoint. To check whether it still "
            "computes:"
        ),
        command=f"srun --jobid={evidence.count('job_id')} --overlap --pty top",
    )


def too_frequent(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    share = evidence.number("share")
    much = f"at least {100 * share:.0f} %" if 0 < share < 1 else "a large share"
    return FlagText(
        title=context.title,
        statement=f"Saving checkpoints takes {much} of the run time.",
        advice=(
            f"Save less often: an interval of about {evidence.duration('optimum_seconds')} minimises the time lost to "
            "saving and to interruptions on this cluster. Also save once shortly before the time limit."
        ),
    )


def too_sparse(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    return FlagText(
        title=context.title,
        statement=(
            f"The job saves a checkpoint only every {evidence.duration('interval_seconds')}, although saving takes "
            f"{evidence.duration('save_seconds')}. An interruption loses all work since the last checkpoint."
        ),
        advice=(
            f"Save more often: an interval of about {evidence.duration('optimum_seconds')} minimises the time lost to "
            "saving and to interruptions such as node failures and preemptions."
        ),
    )
