"""`ckptd mail`: try the way that mail takes."""

from datetime import UTC, datetime

import click

from ckptd.cli.context import friendly, load_config
from ckptd.cli.output import EXIT_FINE, EXIT_TROUBLE
from ckptd.core import notices
from ckptd.core.notices.outbox import Result
from ckptd.service.build_notify import MailError, build_mail_channel, build_renderer


@click.group()
def mail() -> None:
    """Try the way that mail takes."""


@mail.command()
@click.argument("address")
@click.pass_context
@friendly
def test(context: click.Context, address: str) -> None:
    """Send a sample message to ADDRESS at once, whatever mail's mode is, and say what the relay answered."""
    section = load_config(context).mail
    if notices.parse_address(address) is None:
        raise MailError(f"{address!r} is no mail address")
    channel, renderer = build_mail_channel(section), build_renderer(section)
    for trouble in renderer.list_troubles():
        click.echo(f"mail.templates: {trouble}; the built-in template is used instead", err=True)
    digest = notices.sample_digest(address, datetime.now(UTC))
    outcome = channel.send(renderer.render(digest, key=digest.key))
    click.echo(f"{outcome.result}: {outcome.reason or 'the relay took the message'}")
    raise SystemExit(EXIT_FINE if outcome.result is Result.SENT else EXIT_TROUBLE)
