"""Logs notices instead of sending them, so that a site can first watch what would be sent."""

import logging

from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.notify.interface import Message

log = logging.getLogger("ckptd.notices")


class LogChannel:
    """Logs, in one line, who would have been notified of what."""

    def send(self, message: Message) -> SendOutcome:
        log.info("to %s: %s", message.address, message.subject)
        return SendOutcome(result=SendResult.SENT)
