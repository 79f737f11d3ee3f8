"""Checks every mail relay, and the addresses of chat rooms, without sending anything."""

import os
from collections.abc import Iterator

from ckptd.config import Config
from ckptd.notify.apprise_channel import AppriseChannel, read_urls
from ckptd.notify.interface import NotifyError
from ckptd.notify.smtp_channel import try_relay
from ckptd.service.doctor.findings import CheckResult, error, ok
from ckptd.service.mail_settings import build_mail_settings


def check_mail(config: Config) -> Iterator[CheckResult]:
    """Connect to each relay, start TLS and authenticate as configured."""
    if config.mail.mode in {"off", "log"}:
        yield ok(f'mail is not sent: [mail] mode = "{config.mail.mode}"')
        return
    settings = build_mail_settings(config.mail)
    for relay in settings.relays:
        trouble = try_relay(relay, settings)
        steps = {"starttls": " and STARTTLS", "tls": " and TLS", "none": ""}[settings.security]
        steps += " and AUTH" if settings.username else ""
        if trouble:
            yield error(f"relay {relay}: {trouble}", "check mail.relays, security, ca_file, username and password_file")
        else:
            yield ok(f"relay {relay}: connection{steps} succeeded")


def check_apprise(config: Config) -> Iterator[CheckResult]:
    """Check the file of chat rooms."""
    path = config.apprise.urls_file
    if path is None or not os.access(path, os.R_OK):  # the check of files says so
        return
    try:
        count = len(read_urls(path))
        AppriseChannel(path)
    except NotifyError as failure:
        yield error(f"apprise.urls_file: {failure}", "correct the file, or let this account read it")
    else:
        yield ok(f"apprise.urls_file names {count} addresses")
