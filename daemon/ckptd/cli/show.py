"""`ckptd show` and `ckptd advise`: everything that the database has about one job or run."""

import click

from ckptd.cli.cluster_choice import cluster_option
from ckptd.cli.command import friendly


@click.command()
@click.argument("name", metavar="JOB|PATH")
@cluster_option
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def show(context: click.Context, name: str, asked: str | None, is_json: bool) -> None:
    """Show all that ckptd knows about one job or run.

    Prints attempts, lost work, checkpoints, flags, forecast and advice. A run is all jobs that write to one
    checkpoint directory. JOB is an id such as 4711 or, for an array task, 4711_3; PATH is a checkpoint directory.
    """
    from ckptd.cli.run_output import print_runs  # noqa: PLC0415 - --help needs none of it

    print_runs(context, name, asked, is_json=is_json)


@click.command()
@click.argument("name", metavar="JOB|PATH")
@cluster_option
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def advise(context: click.Context, name: str, asked: str | None, is_json: bool) -> None:
    """Recommend a checkpoint interval for a run, by Daly's formula.

    The inputs are the run's measured save duration and how often jobs of its size are interrupted on the cluster. JOB
    is an id such as 4711 or, for an array task, 4711_3; PATH is a checkpoint directory.
    """
    from ckptd.cli.run_output import print_advice  # noqa: PLC0415 - --help needs none of it

    print_advice(context, name, asked, is_json=is_json)
