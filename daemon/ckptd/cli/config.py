"""`ckptd config`: check, show, example."""

import click

from ckptd import config as configuration
from ckptd.cli.context import friendly, load_config
from ckptd.cli.output import print_json


@click.group()
def config() -> None:
    """Check the configuration, show what is in force, print an example."""


@config.command()
@click.pass_context
@friendly
def check(context: click.Context) -> None:
    """Read the configuration and report every error in it at once."""
    load_config(context)
    click.echo("The configuration is good.")


@config.command()
@click.pass_context
@friendly
def show(context: click.Context) -> None:
    """Print the configuration in force, defaults included, as JSON."""
    print_json(load_config(context).model_dump(mode="json"))


@config.command()
def example() -> None:
    """Print an example with every setting, its meaning and its default."""
    click.echo(configuration.format_example(), nl=False)
