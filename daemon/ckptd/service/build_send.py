"""Builds what the step `send` works with: channels, database and agent."""

import logging
from functools import partial

from ckptd.checkpoints.agent import scan_client
from ckptd.config import Config
from ckptd.service import build_notify
from ckptd.service.mail_settings import find_deadline
from ckptd.steps.parts import LEASE, Parts, SendParts

log = logging.getLogger("ckptd")


def build_post(config: Config, parts: Parts) -> SendParts:
    """Return the channels, texts and limits that the step `send` works with.

    Raises:
        NotifyError: a channel cannot be used as configured.

    """
    renderer = build_notify.build_renderer(config.mail)
    for trouble in renderer.list_troubles():
        log.error("%s; using the built-in template", trouble)
    made = {name: build(config) for name, build in build_notify.CHANNELS.items()}
    return SendParts(
        cluster=parts.cluster,
        store=parts.store,
        channels={name: channel for name, channel in made.items() if channel is not None},
        renderer=renderer,
        read_mutes=partial(scan_client.read_mutes, parts.agent, limits=parts.limits),
        policy=parts.notice_policy,
        max_per_minute=config.mail.max_per_minute,
        max_per_hour=config.mail.max_per_hour,
        max_per_user=config.mail.max_per_user,
        max_entries=config.mail.max_entries,
        lease=max(LEASE, find_deadline(config.mail) * (len(config.mail.relays) + 1)),
    )
