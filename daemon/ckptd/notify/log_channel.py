"""Writes notices to the log instead of sending them, so that a site can watch before anything leaves."""

import logging

from ckptd.core.notices.outbox import Outcome, Result
from ckptd.notify.interface import Message

log = logging.getLogger("ckptd.notices")


class LogChannel:
    """Says who would have been told what, in one line."""

    def send(self, message: Message) -> Outcome:
        log.info("to %s: %s", message.address, message.subject)
        return Outcome(result=Result.SENT)
