"""`ckptd plan`, `pin` and `unpin`: show what pruning would do, and protect checkpoints from it."""

import click

from ckptd.cli.command import friendly


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB|PATH]...")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "-v",
    "--verbose",
    "is_verbose",
    is_flag=True,
    help="Also show which checkpoints form a series (equal names except for one number), and why ckptd takes that "
    "number for progress.",
)
@click.option(
    "--cluster", "asked", metavar="NAME", help="Plan the runs of this cluster instead of the one of this host."
)
@click.pass_context
@friendly
def plan(context: click.Context, names: tuple[str, ...], asked: str | None, is_json: bool, is_verbose: bool) -> None:
    """Show what pruning would keep and remove, and why.

    Prints the reason for each checkpoint and changes nothing. The default is every run with at least two checkpoints;
    ordinary users see only their own runs. JOB is an id such as 4711 or, for an array task, 4711_3; PATH is a
    checkpoint directory.
    """
    from ckptd.cli.plan_output import print_plan  # noqa: PLC0415 - --help needs none of it

    print_plan(context, names, asked, is_json=is_json, is_verbose=is_verbose)


@click.command()
@click.argument("path")
@click.pass_context
@friendly
def pin(context: click.Context, path: str) -> None:
    """Keep the checkpoint at PATH, whatever the policies say.

    PATH is the checkpoint or one of its files. `ckptd unpin` undoes this.
    """
    from ckptd.cli.pinning import set_pinned  # noqa: PLC0415 - --help needs none of it

    set_pinned(context, path, is_pinned=True)


@click.command()
@click.argument("path")
@click.pass_context
@friendly
def unpin(context: click.Context, path: str) -> None:
    """Undo `ckptd pin` for the checkpoint at PATH.

    The retention policies then decide about it again.
    """
    from ckptd.cli.pinning import set_pinned  # noqa: PLC0415 - --help needs none of it

    set_pinned(context, path, is_pinned=False)
