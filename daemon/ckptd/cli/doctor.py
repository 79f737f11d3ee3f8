"""`ckptd doctor`: check what ckptd depends on, from where it runs."""

import click

from ckptd.cli.command import friendly


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--timeout", metavar="SECONDS", default=60.0, show_default=True, help="Give up a check that takes longer than this."
)
@click.pass_context
@friendly
def doctor(context: click.Context, is_json: bool, timeout: float) -> None:
    """Check the configuration, accounts, Slurm, database, mail and files.

    Run it as root. It then checks from the service's account and from that of the agent, the process that reads users'
    files. It changes nothing and sends no mail. The exit status is 1 if a check found an error; warnings do not change
    it.
    """
    from ckptd.cli.doctor_report import print_report  # noqa: PLC0415 - --help needs none of it

    print_report(context, is_json=is_json, timeout_seconds=timeout)
