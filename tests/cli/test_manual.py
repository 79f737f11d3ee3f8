import re
import subprocess

import click

from ckptd.cli import main
from ckptd.cli.manual import format_manual
from demo.patience import allow


def command_paths(command, path=("ckptd",)):
    yield " ".join(path)
    for name, inner in getattr(command, "commands", {}).items():
        yield from command_paths(inner, (*path, name))


def render(page):
    command = ["groff", "-man", "-ww", "-Tutf8", "-P-c", "-rLL=100n"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=True, timeout=allow(60))
    assert done.stderr == ""
    return re.sub(".\x08", "", done.stdout)  # bold and underlined letters are struck twice


def test_the_man_page_is_good_roff_and_names_every_command_and_option():
    text = " ".join(render(format_manual(main)).split())
    for path in command_paths(main):
        assert path in text
    assert "--watch" in text
    assert "flagged jobs first" in text


def test_text_that_looks_like_roff_stays_text():
    command = click.Command(
        "x", help=".PP is 'no' request, nor is \\fB", params=[click.Option(["--a-b"], help=".so x")]
    )
    text = render(format_manual(command))
    assert ".PP is 'no' request, nor is \\fB" in text
    assert ".so x" in text
    assert "--a-b" in text
