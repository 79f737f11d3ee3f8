"""Word the notices that are about mail itself."""

from ckptd.present.flag_texts.evidence_reader import EvidenceReader
from ckptd.present.flag_texts.flag_text import FlagContext, FlagText
from ckptd.present.formatting import format_count


def mail_held_back(evidence: EvidenceReader, context: FlagContext) -> FlagText:
    return FlagText(
        title=context.title,
        statement=(
            f"More mail is due than [mail] max_per_hour ({evidence.count('mails_in_an_hour'):,}) allows: "
            f"{format_count(evidence.count('notices_waiting'), 'notice')} to "
            f"{format_count(evidence.count('people_waiting'), 'user')} wait. ckptd sends the waiting mail "
            "at the allowed rate, starting with critical flags."
        ),
        advice=(
            "First find out why so many flags opened at once, and fix the cause. To send the mail faster, raise "
            '[mail] max_per_hour; to send mail only to administrators, set [mail] mode = "admin". To list all flags:'
        ),
        command="ckptd flags",
    )


def sample_message(evidence: EvidenceReader, context: FlagContext) -> FlagText:  # noqa: ARG001 - as all texts
    return FlagText(
        title=context.title,
        statement="This is a test message. It shows that notifications are delivered.",
        advice="You need not do anything: the job named in this message does not exist.",
    )
