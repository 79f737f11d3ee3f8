"""Word the flag about copies of checkpoints that fall behind."""

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
