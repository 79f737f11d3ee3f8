from click.testing import CliRunner

from ckptd.cli import main


def test_help_names_the_command():
    assert "Usage" in CliRunner().invoke(main, ["--help"]).output
