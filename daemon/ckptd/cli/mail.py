"""`ckptd mail`: test the delivery of mail."""

from datetime import UTC, datetime

import click

from ckptd.cli.command import friendly
from ckptd.cli.output import EXIT_FINE, EXIT_TROUBLE


@click.group()
def mail() -> None:
    """Test the delivery of mail."""


@mail.command()
@click.argument("address")
@click.pass_context
@friendly
def test(context: click.Context, address: str) -> None:
    """Send a sample message to ADDRESS and print the relay's answer.

    The message is sent immediately, also if [mail] mode is "off".
    """
    from ckptd.cli.whole_config import load_config  # noqa: PLC0415 - --help needs none of it
    from ckptd.core import notices  # noqa: PLC0415
    from ckptd.core.notices.delivery import SendResult  # noqa: PLC0415
    from ckptd.service.build_notify import build_mail_channel, build_renderer  # noqa: PLC0415
    from ckptd.service.mail_settings import MailError  # noqa: PLC0415

    section = load_config(context).mail
    if notices.parse_address(address) is None:
        raise MailError(f"{address!r} is not a mail address; use for example user@example.org")
    channel, renderer = build_mail_channel(section), build_renderer(section)
    for trouble in renderer.list_troubles():
        click.echo(f"mail.templates: {trouble}; using the built-in template", err=True)
    digest = notices.sample_digest(address, datetime.now(UTC))
    outcome = channel.send(renderer.render(digest, key=digest.key))
    click.echo(f"{outcome.result}: {outcome.reason or 'the relay accepted the message'}")
    raise SystemExit(EXIT_FINE if outcome.result is SendResult.SENT else EXIT_TROUBLE)
