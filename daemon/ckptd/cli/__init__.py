"""The console command."""

import click


@click.group()
def main() -> None:
    """Watch the checkpoints of a Slurm cluster's jobs."""
