"""`ckptd trash`: list, restore and delete checkpoints in the trash. With a DIRECTORY, it needs no database."""

import click

from ckptd.cli.command import friendly


@click.group()
def trash() -> None:
    """List, restore or delete checkpoints in the trash.

    Pruning moves checkpoints there.
    """


@trash.command(name="list")
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@click.option("--user", metavar="USER", help="Show only checkpoints of USER.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def list_(context: click.Context, directories: tuple[str, ...], user: str | None, is_json: bool) -> None:
    """List the checkpoints in the trash.

    DIRECTORY is a checkpoint directory. The default is all checkpoint directories that ckptd knows.
    """
    from ckptd.cli.trash_contents import print_entries  # noqa: PLC0415 - --help needs none of it

    print_entries(context, directories, user, is_json=is_json)


@trash.command()
@click.argument("directories", nargs=-1, metavar="[DIRECTORY]...")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def scan(context: click.Context, directories: tuple[str, ...], is_json: bool) -> None:
    """Record the contents of trashes that the database does not know.

    Use this after the database was lost or replaced. ckptd searches these directories and everything below them, by
    default scan.allowed_roots, and reads the manifest of every checkpoint in a trash.
    """
    from ckptd.cli.trash_recording import scan_and_record  # noqa: PLC0415 - --help needs none of it

    scan_and_record(context, directories, is_json=is_json)


@trash.command()
@click.argument("act_ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--directory",
    "directories",
    multiple=True,
    metavar="DIRECTORY",
    help="Checkpoint directory whose trash to use; the command then works without a database.",
)
@click.pass_context
@friendly
def restore(context: click.Context, act_ids: tuple[str, ...], directories: tuple[str, ...]) -> None:
    """Move checkpoints from the trash back to where they were.

    ckptd will not prune them again. ID is the id that `ckptd trash list` prints.
    """
    from ckptd.cli.trash_changes import restore_entries  # noqa: PLC0415 - --help needs none of it

    restore_entries(context, act_ids, directories)


@trash.command()
@click.argument("act_ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="Delete everything in the trash.")
@click.option("--user", metavar="USER", help="With --all: only checkpoints of USER.")
@click.option(
    "--yes", "is_sure", is_flag=True, help="Do not ask for confirmation; required with --all if there is no terminal."
)
@click.option(
    "--directory",
    "directories",
    multiple=True,
    metavar="DIRECTORY",
    help="Checkpoint directory whose trash to use; the command then works without a database.",
)
@click.pass_context
@friendly
def empty(
    context: click.Context,
    act_ids: tuple[str, ...],
    is_all: bool,
    user: str | None,
    is_sure: bool,
    directories: tuple[str, ...],
) -> None:
    """Permanently delete checkpoints from the trash.

    ID is the id that `ckptd trash list` prints. This also deletes checkpoints whose hold (the time that ckptd keeps
    them in the trash) has not ended. The oldest are deleted first.
    """
    from ckptd.cli.trash_changes import delete_entries  # noqa: PLC0415 - --help needs none of it

    delete_entries(context, act_ids, directories, user, is_all=is_all, is_sure=is_sure)
