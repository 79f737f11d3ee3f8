"""The settings of the mail relays, as the configuration names them."""

from datetime import timedelta

from ckptd.config import MailSection
from ckptd.errors import CkptdError
from ckptd.notify.smtp_channel import MailSettings, Relay

DEADLINE_FACTOR = 4  # SMTP replies that take the whole timeout, in one message


class MailError(CkptdError):
    """Mail cannot be sent as configured; the text says why."""


def find_deadline(mail: MailSection) -> timedelta:
    """Return the maximum time that one mail relay may take for one message."""
    return mail.timeout * DEADLINE_FACTOR


def build_mail_settings(mail: MailSection) -> MailSettings:
    """Return the settings of the delivery.

    Raises:
        MailError: no sender is configured.

    """
    if mail.sender is None:
        raise MailError("mail.sender is not configured: set sender in the section [mail]")
    relays = (relay.rpartition(":") for relay in mail.relays)
    return MailSettings(
        relays=tuple(Relay(host.strip("[]"), int(port)) for host, _, port in relays),
        sender=mail.sender,
        security=mail.security,
        username=mail.username,
        password_file=mail.password_file,
        ca_file=mail.ca_file,
        timeout_seconds=mail.timeout.total_seconds(),
        deadline_seconds=find_deadline(mail).total_seconds(),
    )
