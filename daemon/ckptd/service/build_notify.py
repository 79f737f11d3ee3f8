"""Builds the texts, recipients and channels of messages from the configuration, without the database."""

from collections.abc import Callable

from ckptd.config import Config, MailSection
from ckptd.core.model import Severity
from ckptd.core.notices import ChatRoom, NoticeMode, NoticePolicy, Recipient
from ckptd.notify.apprise_channel import AppriseChannel, read_urls
from ckptd.notify.interface import Channel
from ckptd.notify.log_channel import LogChannel
from ckptd.notify.rendering import Renderer
from ckptd.notify.smtp_channel import MailChannel
from ckptd.service.mail_settings import build_mail_settings

ANY_DOMAIN = "*"


def build_policy(config: Config) -> NoticePolicy:
    """Return who is notified of what, and how often.

    Raises:
        NotifyError: the file of Apprise's addresses cannot be used.

    """
    mail = config.mail
    names = read_urls(config.apprise.urls_file) if config.apprise.urls_file else {}
    return NoticePolicy(
        mode=NoticeMode(mail.mode),
        user_rule=mail.recipient or "",
        allowed_domains=_list_allowed_domains(mail),
        admins=mail.admins,
        rooms=tuple(
            ChatRoom(recipient=Recipient("apprise", name), audience=frozenset(config.apprise.audience))
            for name in names
        ),
        windows={
            Severity.CRITICAL: mail.critical_window,
            Severity.WARNING: mail.warning_window,
            Severity.INFO: mail.info_window,
        },
        repeat_gap=mail.repeat_gap,
        max_repeats=mail.max_repeats,
        is_resolution_notified=mail.notify_resolved,
    )


def _list_allowed_domains(mail: MailSection) -> tuple[str, ...]:
    """Return the mail domains that jobs may name, by default the site's own; empty: any."""
    if ANY_DOMAIN in mail.allowed_domains:
        return ()
    return mail.allowed_domains or ((mail.recipient or "").rpartition("@")[2],)


def _build_mail(config: Config) -> Channel | None:
    return None if config.mail.mode in {"off", "log"} else build_mail_channel(config.mail)


def _build_log(config: Config) -> Channel | None:
    return LogChannel() if config.mail.mode == "log" else None


def _build_apprise(config: Config) -> Channel | None:
    return AppriseChannel(config.apprise.urls_file) if config.apprise.urls_file else None


# by the name of the channel in a notice's recipient: the configured channel, None if there is none
CHANNELS: dict[str, Callable[[Config], Channel | None]] = {
    "mail": _build_mail,
    "log": _build_log,
    "apprise": _build_apprise,
}


def build_renderer(mail: MailSection) -> Renderer:
    """Return the renderer of messages, which shows times in the site's time zone."""
    return Renderer(mail.templates, repeat_gap=mail.repeat_gap, max_bytes=mail.max_bytes, zone=None)


def build_mail_channel(mail: MailSection) -> MailChannel:
    """Return the channel that the section describes.

    Raises:
        MailError: no sender is configured.

    """
    return MailChannel(build_mail_settings(mail))
