"""Sends an outbox to a relay, in this process or in one that is there to be killed."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckptd.notify.rendering import Renderer
from ckptd.notify.smtp_channel import MailChannel, MailSettings, Relay
from ckptd.steps.parts import SendParts
from ckptd.steps.send import Sender
from ckptd.store.store import Store
from support.mail_server import USER


def now():
    return datetime.now(UTC)


def make_sender(store, *, cluster="c1", clock=now, channels=None, **changes):
    values = {
        "cluster": cluster,
        "store": store,
        "channels": channels or {},
        "renderer": Renderer(),
        "read_mutes": lambda places: [frozenset() for _ in places],
        "max_per_minute": 10_000,
    }
    return Sender(post=SendParts(**(values | changes)), clock=clock)


def make_channel(port, certificate, password_file):
    return MailChannel(
        MailSettings(
            relays=(Relay("127.0.0.1", port),),
            sender="ckptd@example.org",
            username=USER,
            password_file=Path(password_file),
            ca_file=Path(certificate),
            timeout_seconds=10,
        )
    )


def let_the_next_try_come(path):
    """Put what was claimed or tried an hour back in a record, which is longer than a lease and a pause."""
    with closing(sqlite3.connect(path)) as record, record:
        for column in ("claimed_at", "next_try_at"):
            record.execute(f"UPDATE notices SET {column} = {column} - 3600000000")  # microseconds


def send_until_killed(url, port, certificate, password_file):
    """Send whatever is due, for ever; a claim that was cut off is taken up again at once."""
    channels = {"mail": make_channel(port, certificate, password_file)}
    sender = make_sender(Store.open(url), channels=channels, lease=timedelta(milliseconds=1))
    while True:
        sender.send_due(now())
