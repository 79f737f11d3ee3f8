"""`ckptd verify`: read every byte of recorded checkpoints."""

import click

from ckptd.cli.command import friendly


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB|PATH]...")
@click.option("--all", "is_all", is_flag=True, help="Verify every run; ordinary users can verify only their own.")
@click.option("--again", "is_again", is_flag=True, help="Also read the checkpoints that were verified before.")
@click.option("--here", "is_here", is_flag=True, help="Read on this node, also where the site lets jobs do it.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document at the end.")
@click.pass_context
@friendly
def verify(
    context: click.Context, names: tuple[str, ...], is_all: bool, is_again: bool, is_here: bool, is_json: bool
) -> None:
    """Read every byte of recorded checkpoints, and record which are complete.

    JOB is an id such as 4711 or, for an array task, 4711_3; PATH is a checkpoint directory. Ctrl-C stops the command
    and keeps every result so far; the same command later continues with the others.

    If the site lets Slurm jobs of the owners read the files, the command submits a job for each run and waits for its
    result. Ctrl-C cancels these jobs.

    The exit status is 1 if a checkpoint is damaged or could not be verified.
    """
    if bool(names) == is_all:
        raise click.UsageError("name the runs by JOB or PATH, or verify every run with --all")
    from ckptd.cli.run_verification import verify_runs  # noqa: PLC0415 - --help needs none of it

    verify_runs(context, names, is_again=is_again, is_here=is_here, is_json=is_json)
