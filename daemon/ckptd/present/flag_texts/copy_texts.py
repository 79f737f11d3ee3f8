"""Word the flags about copies of checkpoints: those that fall behind, and those with another content."""

from ckptd.present.flag_texts.evidence_reader import EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText


def copy_behind(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    directory, newest = evidence.text("directory"), evidence.text("newest_good")
    if evidence.has("newest_copy"):
        usual = (
            f"; usually, they are {evidence.duration('usual_seconds')} behind" if evidence.has("usual_seconds") else ""
        )
        statement = (
            f"The copies in {directory} are {evidence.duration('behind_seconds')} behind{usual}. The newest complete "
            f"checkpoint is {newest}; the newest complete copy is {evidence.text('newest_copy')}."
        )
    else:
        statement = (
            f"{directory} should hold copies of this job's checkpoints, but contains no complete copy. "
            f"The newest complete checkpoint is {newest}."
        )
    others = evidence.texts("other_directories")
    also = f" Also behind: {', '.join(others)}." if others else ""
    return FlagText(
        title=context.title,
        statement=statement + also,
        advice=(
            "Check that the command that copies the checkpoints still runs, and that the quota of this directory is "
            "not used up. If you no longer copy them there, remove the directory from the job's comment or .ckptd.toml."
        ),
    )


def copy_differs(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    witness = "A verification job" if evidence.is_true("is_by_owner") else "ckptd"
    more_count = evidence.count("copy_count") - 1
    also = (
        "" if not more_count else f" {more_count} more {'copy differs' if more_count == 1 else 'copies differ'}, too."
    )
    return FlagText(
        title=context.title,
        statement=(
            f"{evidence.text('copy')} has the names and sizes of {evidence.text('original')}, but not its content. "
            f"{witness} compared both on {evidence.instant('compared_at')}; the first file that differs is "
            f"{evidence.text('differing_file')}.{also}"
        ),
        advice=(
            "Do not rely on this copy: it was damaged, or is a copy of another checkpoint. Copy the checkpoint again. "
            "Until then, ckptd does not count it as a copy."
        ),
    )
