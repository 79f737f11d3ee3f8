"""`ckptd verify`: read every byte of recorded checkpoints."""

import click

from ckptd.cli.command import friendly


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB|PATH]...")
@click.option("--all", "is_all", is_flag=True, help="Verify every run; ordinary users can verify only their own.")
@click.option("--copies", "is_about_copies", is_flag=True, help="Compare the content of copies instead.")
@click.option("--again", "is_again", is_flag=True, help="Also read what was verified, or had the same content, before.")
@click.option("--here", "is_here", is_flag=True, help="Read on this node, also where the site lets jobs do it.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document at the end.")
@click.pass_context
@friendly
def verify(
    context: click.Context, /, names: tuple[str, ...], is_all: bool, is_about_copies: bool, **options: bool
) -> None:
    """Read every byte of checkpoints, and record which are complete.

    JOB is an id such as 4711 or, for an array task, 4711_3; PATH is a checkpoint directory. Ctrl-C stops the command
    and keeps every result so far; the same command later continues with the others.

    If the site lets Slurm jobs of the owners read the files, the command submits a job for each run and waits for its
    result. Ctrl-C cancels these jobs.

    With --copies, the command reads the newest complete checkpoint of each run that has copies in further locations,
    and these copies, and says of each copy whether its content is the same.

    The exit status is 1 if a checkpoint is damaged or could not be verified, or a copy differs or could not be
    compared.
    """
    if bool(names) == is_all:
        raise click.UsageError("name the runs by JOB or PATH, or verify every run with --all")
    from ckptd.cli.run_comparison import compare_copies  # noqa: PLC0415 - --help needs none of it
    from ckptd.cli.run_verification import verify_runs  # noqa: PLC0415

    command = compare_copies if is_about_copies else verify_runs
    command(context, names, **options)
