"""`ckptd prune`: carry out exactly the plan that `ckptd plan` printed, by the daemon's own function."""

import click

from ckptd.cli.command import friendly


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB|PATH]...")
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    required=True,
    help="Confirm that the checkpoints are to be moved. To only show the plan, use `ckptd plan`.",
)
@click.option(
    "--plan", "plan_id", required=True, metavar="ID", help="The id that `ckptd plan` printed for the same arguments."
)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def prune(context: click.Context, names: tuple[str, ...], is_applied: bool, plan_id: str, is_json: bool) -> None:
    """Move the checkpoints that a plan removes to the trash.

    First run `ckptd plan` with the same arguments. The command moves nothing if the plan has changed since then.
    """
    from ckptd.cli.apply_plan import apply_plan  # noqa: PLC0415 - --help needs none of it

    assert is_applied
    apply_plan(context, names, plan_id, is_json=is_json)
