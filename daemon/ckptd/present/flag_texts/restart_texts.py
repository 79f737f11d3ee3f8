"""Word the flags about restarts: without a checkpoint, from the wrong one, without progress, or not possible."""

from ckptd.core.model import Certainty, EndCause
from ckptd.present.flag_texts import unrecognised_file
from ckptd.present.flag_texts.evidence_reader import EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText
from ckptd.present.formatting import format_count

NAMED = 3  # paths in a sentence; the evidence has the others
_ELSEWHERE = (
    "If the job saves checkpoints elsewhere, name their directory: submit with --comment=ckpt=PATH, or add `directory` "
    "to .ckptd.toml in the job's working directory."
)
_NAME_IT = (
    "If the job saves checkpoints, name their directory: submit with --comment=ckpt=PATH, or add `directory` to "
    ".ckptd.toml in the job's working directory."
)
_DELETED = (
    "If you deleted the earlier checkpoints to start over, you need not do anything. Otherwise, check whether the "
    "batch script, the program or a clean-up job empties the directory."
)
_IN_A_ROW = 3  # attempts, from which on a text says that each was cut short
_CAUSES = {
    EndCause.PREEMPTION: "preemption",
    EndCause.NODE_FAILURE: "a node failure",
    EndCause.REQUEUE: "a requeue",
    EndCause.TIME_LIMIT: "the time limit",
    EndCause.FAILURE: "a failure",
    EndCause.UNKNOWN: "an unknown cause",
}
_FIX = "find out from its output why it ends without a new checkpoint, and fix the cause"


def restarted_without_checkpoint(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    directory = evidence.text("directory") if evidence.has("directory") else "its working directory"
    earlier = "its earlier work is lost"
    if evidence.has("earlier_run_time_seconds"):
        earlier = f"{evidence.duration('earlier_run_time_seconds')} of earlier work is lost"
    found = evidence.text("found")
    command = None
    restarted = "This job restarted without a checkpoint"
    if found == "unreadable":
        statement = (
            f"This job may have restarted without a checkpoint: ckptd could not read the checkpoints in {directory}."
        )
        advice = f"Check the permissions of {directory} and of the files in it."
    elif found == "data":
        statement = (
            f"This job may have restarted without a checkpoint: nothing shows that its files in {directory} are "
            f"checkpoints, and it writes them again from the beginning. If the job saves nowhere else, {earlier}."
        )
        advice = f"If the job can be interrupted, let it save checkpoints or skip finished parts. {_ELSEWHERE}"
    elif found == "inputs":
        statement = (
            f"This job may have restarted without a checkpoint: ckptd found only model weights in {directory}. They "
            "were last written when a job started, so they may be downloads. If the job saves nowhere else, "
            f"{_bound_loss(evidence)}."
        )
        advice = f"Save a first checkpoint within a few minutes of the start. {_ELSEWHERE}"
    elif found == "damaged":
        statement = f"{restarted}: its checkpoints were damaged or incomplete, so {earlier}."
        advice = (
            "Keep at least the newest two checkpoints. Write each under a temporary name, and rename it when it is "
            "complete."
        )
    elif found == "unfinished":
        statement = (
            f"{restarted}: its only checkpoint was still being written when the earlier attempt ended, so {earlier}."
        )
        advice = (
            "Save the first checkpoint earlier. If the time limit ended the earlier attempt, also let Slurm send a "
            "signal earlier, and trap it in the batch script so that the program saves a checkpoint:"
        )
        command = f"#SBATCH --signal=B:TERM@{evidence.count('signal_seconds')}"
    elif found == "deleted":
        deleted = format_count(evidence.count("deleted_count"), "complete checkpoint")
        statement = f"{restarted}: {deleted} had been deleted from {directory}, and none was left, so {earlier}."
        advice = _DELETED
    else:
        statement, advice = _describe_nothing(evidence, restarted, directory, earlier)
    if _tells_interruptions(evidence) and evidence.count("interrupted_attempts") >= _IN_A_ROW:
        statement += (
            f" The last {evidence.count('interrupted_attempts')} attempts were requeued, preempted or ended by a node "
            "failure before ckptd saw any of them save a checkpoint; the longest ran for "
            f"{evidence.duration('longest_seconds')}."
        )
        if command is None:
            advice, command = _save_in_time(evidence, advice)
    return FlagText(title=context.title, statement=statement, advice=advice, command=command)


def _tells_interruptions(evidence: EvidenceReader) -> bool:
    """Return whether the rule recorded interruptions; false in flags of earlier versions."""
    return any(evidence.is_recorded(name) for name in ("interrupted_attempts", "is_interrupted", "longest_seconds"))


def _save_in_time(evidence: EvidenceReader, advice: str) -> tuple[str, str]:
    """Add to an advice how a job saves when it is asked to end, and return the option that lets Slurm ask early."""
    also = (
        "If Slurm grants a grace time before it preempts the job, also trap TERM in the batch script so that the "
        "program saves then:"
    )
    return f"{advice} {also}", f"#SBATCH --signal=B:TERM@{evidence.count('signal_seconds')}"


def _describe_nothing(evidence: EvidenceReader, restarted: str, directory: str, earlier: str) -> tuple[str, str]:
    """Return statement and advice where nothing at all was found: by who named the directory."""
    if _is_named(evidence) and evidence.has("directory"):
        statement = f"{restarted}: ckptd found no complete checkpoint in {directory} when it started, so {earlier}."
        advice = (
            f"Save a first checkpoint within a few minutes of the start, and check that it is written to {directory}."
        )
    elif evidence.has("unmet_names"):
        named = ", ".join(evidence.texts("unmet_names")[:NAMED])
        statement = (
            f"This job may have restarted without a checkpoint: {named}, named as its checkpoint directory, does not "
            f"exist. If the job saves nowhere else, {_bound_loss(evidence)}."
        )
        advice = (
            "Check the path, and whether the job creates the directory and saves a first checkpoint there within a few "
            "minutes of the start."
        )
    elif evidence.has("directory"):
        statement = (
            f"This job seems to have restarted without a checkpoint: {directory}, probably its checkpoint directory, "
            f"contained no complete checkpoint when it started. If the job saves nowhere else, {earlier}."
        )
        advice = f"Save a first checkpoint within a few minutes of the start. {_ELSEWHERE}"
    else:
        searched = evidence.text("searched") if evidence.has("searched") else "its working directory"
        statement = (
            f"This job may have restarted without a checkpoint: ckptd found none in {searched}. If the job saves "
            f"nowhere else, {_bound_loss(evidence)}."
        )
        advice = f"Save a first checkpoint within a few minutes of the start. {_ELSEWHERE}"
    return statement, advice


def _bound_loss(evidence: EvidenceReader) -> str:
    """Say how much work is lost at most, if that is known."""
    if not evidence.has("earlier_run_time_seconds"):
        return "earlier work is lost"
    return f"up to {evidence.duration('earlier_run_time_seconds')} of earlier work is lost"


def checkpoints_not_located(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    if not evidence.has("searched") and evidence.has("directory"):
        if (file := unrecognised_file.describe(evidence)) is not None:
            return FlagText(
                title=context.title,
                statement=(
                    "This job restarted, and ckptd cannot tell whether it resumed: it found no checkpoint of a known "
                    f"format in {evidence.text('directory')}, but other files: {file}."
                ),
                advice=unrecognised_file.ADVICE,
            )
        return FlagText(
            title=context.title,
            statement=(
                f"This job restarted, and ckptd cannot tell whether it resumed: {evidence.text('directory')} had no "
                f"complete checkpoint, and {evidence.text('reason')} could not be read."
            ),
            advice=(
                "`ckptd show JOB` says why ckptd could not read it. If you do not keep checkpoints there, "
                "remove it from the job's comment or .ckptd.toml."
            ),
        )
    return FlagText(
        title=context.title,
        statement=(
            "This job restarted, and ckptd does not know where its checkpoints are, so it cannot tell whether the job "
            f"resumed: {evidence.text('reason')}."
        ),
        advice=_NAME_IT,
    )


def _is_named(evidence: EvidenceReader) -> bool:
    return evidence.has("located_by") and evidence.text("located_by") in {"comment", "user-file"}


def not_resuming(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    source = evidence.text("should_resume_from")
    if evidence.is_true("is_still_there"):
        advice = f"Make the program load {source} when it starts, and do not let it overwrite that checkpoint."
    else:
        advice = (
            f"{source} has since been replaced or deleted. Make the program load its newest checkpoint when it starts, "
            "and save each checkpoint under a name of its own."
        )
        if evidence.count("deleted_count"):
            advice = _DELETED
        elif evidence.count("restart_count") == 0:
            advice += " If you deleted the earlier checkpoints to start over, you need not do anything."
    statement = f"After the restart, the job does not continue from {source}, as the program's own files show."
    if evidence.has("unit"):
        unit = evidence.text("unit")
        statement = (
            f"After the restart, the job saved {unit} {evidence.progress('saved_now')}, although earlier attempts had "
            f"saved {unit} {evidence.progress('saved_before')}."
        )
    otherwise = f"Otherwise, {advice[:1].lower()}{advice[1:]}"
    if evidence.has("intent") and evidence.text("intent") == "counted-anew":
        statement += " If firsttimestep is not set, NAMD counts from 0 again even after it has loaded a checkpoint"
        advice = (
            "If the job did load its restart files, set firsttimestep to the step of the last save in the input of the "
            f"next job. {otherwise}"
        )
        return FlagText(title=context.title, statement=f"{statement}.", advice=advice)
    if evidence.has("intent"):
        advice = f"If you meant the job to start over or to do other work, ignore this message. {otherwise}"
        if evidence.text("intent") == "other-names":
            statement += " Its checkpoints have names that no earlier checkpoint has."
    return FlagText(title=context.title, statement=f"{statement} {_describe_resume(evidence)}.", advice=advice)


def _describe_resume(evidence: EvidenceReader) -> str:
    """Say what an attempt resumed from, and how surely; empty for flags of earlier versions without that evidence."""
    is_told = evidence.is_recorded("resume_certainty") or evidence.is_recorded("resumed_from")
    if not is_told or not evidence.has("resume_certainty"):
        return "So it has probably not resumed from that checkpoint"
    probably = "probably " if evidence.text("resume_certainty") == Certainty.INFERRED else ""
    if not evidence.has("resumed_from"):
        return f"It {probably}started from the beginning"
    return f"It {probably}resumed from {evidence.text('resumed_from')}"


def restart_loop(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    source = "There is no checkpoint to resume from."
    if evidence.has("newest_good"):
        source = f"The job should resume from {evidence.text('newest_good')}."
    if _tells_interruptions(evidence) and evidence.is_true("is_interrupted"):
        return _describe_interruptions(evidence, context, source)
    advice, command = _stop_loop(evidence)
    return FlagText(
        title=context.title,
        statement=(
            f"{evidence.count('attempts')} attempts in a row saved no further progress, in "
            f"{evidence.duration('ran_seconds')} of run time altogether. {source}"
        ),
        advice=advice,
        command=command,
    )


def _describe_interruptions(evidence: EvidenceReader, context: FlagContext, source: str) -> FlagText:
    """Word a loop of attempts that were interrupted sooner than they saved."""
    causes = " or ".join(_CAUSES[EndCause(cause)] for cause in evidence.texts("causes"))
    lost = f"{evidence.duration('ran_seconds')} of run time is lost"
    if not _is_named(evidence):
        lost = f"if the job saves nowhere else than in {evidence.text('directory')}, {lost}"
    advice, command = _save_in_time(
        evidence,
        "Save checkpoints more often than the job is interrupted, and the first one soon after each start: the longest "
        f"of these attempts ran for {evidence.duration('longest_seconds')}.",
    )
    return FlagText(
        title=context.title,
        statement=(
            f"{evidence.count('attempts')} attempts in a row were ended by {causes} before they saved a "
            f"checkpoint; {lost}. {source}"
        ),
        advice=advice,
        command=command,
    )


def _stop_loop(evidence: EvidenceReader) -> tuple[str, str]:
    """Return what ends a loop, and its command: how the job restarts decides between hold, cancel and release."""
    job = evidence.text("slurm_job")
    if evidence.has("held_by"):
        held = "ckptd held the job" if evidence.text("held_by") == "ckptd" else "The job is held"
        return f"{held}: {_FIX}; then release it:", f"scontrol release {job}"
    if evidence.count("restart_count"):
        return f"Requeue and hold the job, then {_FIX}. To requeue and hold it:", f"scontrol requeuehold {job}"
    if evidence.has("array_job_id"):
        array = evidence.count("array_job_id")
        fix = "find out from the output of the failed tasks why they end without a new checkpoint, and fix the cause"
        return f"Hold the pending tasks of the array, then {fix}. To hold them:", f"scontrol hold {array}"
    return f"Cancel the job, {_FIX}; then submit it again. To cancel it:", f"scancel {job}"


def job_held(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    return FlagText(
        title=context.title,
        statement=(
            "ckptd held this job because it was requeued repeatedly without saving further progress. It will not start "
            "until you release it."
        ),
        advice=(
            "Find out from its output why it ends without a new checkpoint, and fix the cause, or cancel the job "
            f"(scancel {evidence.text('slurm_job')}). To release it:"
        ),
        command=evidence.text("release_with"),
    )


def not_requeueable(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    return FlagText(
        title=context.title,
        statement=(
            f"Slurm may preempt jobs in partition {evidence.text('partition')}, and this job would then not be "
            "requeued."
        ),
        advice=(
            "Make sure that the job resumes from its newest checkpoint when it starts, and submit later jobs with "
            "#SBATCH --requeue. To let Slurm requeue this job:"
        ),
        command=f"scontrol update JobId={evidence.text('slurm_job')} Requeue=1",
    )
