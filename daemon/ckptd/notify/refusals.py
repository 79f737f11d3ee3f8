"""Reads a relay's refusal: whether it is final, and whether another relay may accept the message.

The codes are those of RFC 5321 (4.2.3); the enhanced codes are those of RFC 3463, whose second number is the subject.
A `5xx` is final if it concerns the address or this very message. If it concerns the relay's policy, routing or system,
every message would get it and the site must fix it, so the message waits as after a `4xx`.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.present.formatting import clean

CLOSING = 421
_ENHANCED = re.compile(rb"\s*5\.(\d{1,3})\.(\d{1,3})\b")
_NO_SUCH_ADDRESS = frozenset({550, 551, 553})  # to RCPT
ADDRESS, MAILBOX, SYSTEM, CONTENT, POLICY = 1, 2, 3, 6, 7
_OF_THE_SENDER = frozenset({(ADDRESS, 7), (ADDRESS, 8)})
_MAILBOX_FULL = (MAILBOX, 2)
_TOO_LARGE = frozenset({(MAILBOX, 3), (SYSTEM, 4)})


class SmtpStage(StrEnum):
    """The part of the SMTP transaction that a reply belongs to."""

    RECIPIENT = "recipient"
    DATA = "data"  # the command, before a byte of the message
    MESSAGE = "message"


class RelayAnswer(NamedTuple):
    """A relay's answer. `is_last_word`: it is about the address itself, so no other relay is tried."""

    outcome: SendOutcome
    is_last_word: bool = False


def read_refusal(step: SmtpStage, code: int, reply: bytes) -> RelayAnswer:
    """Return the outcome of a message from a relay's refusal."""
    if code == CLOSING:
        result, is_last_word = SendResult.UNREACHABLE, False
    elif code // 100 != 5:
        result, is_last_word = SendResult.DEFERRED, False
    else:
        enhanced = _ENHANCED.match(reply)
        subject = (int(enhanced[1]), int(enhanced[2])) if enhanced else None
        is_last_word = subject is not None and _is_about_the_address(subject)
        is_final = is_last_word or _is_final(step, code, subject)
        result = SendResult.REFUSED if is_final else SendResult.DEFERRED
    is_about_address = result is SendResult.REFUSED and (is_last_word or step is SmtpStage.RECIPIENT)
    return RelayAnswer(
        SendOutcome(result=result, reason=quote(code, reply), is_about_address=is_about_address), is_last_word
    )


def _is_about_the_address(subject: tuple[int, int]) -> bool:
    if subject in _OF_THE_SENDER or subject == _MAILBOX_FULL or subject in _TOO_LARGE:
        return False
    return subject[0] in {ADDRESS, MAILBOX}


def _is_final(step: SmtpStage, code: int, subject: tuple[int, int] | None) -> bool:
    if subject == _MAILBOX_FULL:
        return False
    if step is SmtpStage.MESSAGE:  # the same bytes again would meet the same filter
        return subject is None or subject[0] in {CONTENT, POLICY} or subject in _TOO_LARGE
    return step is SmtpStage.RECIPIENT and subject is None and code in _NO_SUCH_ADDRESS


def quote(code: int, reply: bytes) -> str:
    """Return a relay's reply with control characters escaped."""
    return f"{code} {clean(reply.decode('utf-8', 'replace'), 200)}"
