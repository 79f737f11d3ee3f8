"""The console command: one file for each group of commands."""

from pathlib import Path

import click

from ckptd.cli import config, daemon, db, inspect, mail, manual, retention, runs, trash

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=CONTEXT)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Read FILE instead of /etc/ckptd/config.toml."
)
@click.version_option(package_name="ckptd")
def main(config: Path | None) -> None:
    """Watch every job's remaining time and checkpoints on a Slurm cluster."""


for command in (
    daemon.run,
    daemon.once,
    daemon.status,
    runs.jobs,
    runs.show,
    runs.flags,
    inspect.inspect,
    retention.plan,
    retention.prune,
    retention.pin,
    retention.unpin,
    trash.trash,
    config.config,
    db.db,
    mail.mail,
    manual.manual,
):
    main.add_command(command)
