"""`ckptd manual`: the man page, made from the texts that --help prints, so that the two never differ."""

from collections.abc import Iterator

import click


@click.command()
@click.pass_context
def manual(context: click.Context) -> None:
    """Print the man page. To install it: ckptd manual > /usr/local/share/man/man1/ckptd.1"""  # noqa: D400, D415 - it ends in a path
    click.echo(format_manual(context.find_root().command), nl=False)


def format_manual(root: click.Command) -> str:
    """Return a man page of section 1 for a command and its subcommands, in the macros of man(7)."""
    context = click.Context(root, info_name="ckptd", **root.context_settings)
    lines = [
        ".TH CKPTD 1",
        ".SH NAME",
        f"ckptd \\- {_escape(_help(root))}",
        ".SH SYNOPSIS",
        f".B ckptd\n{_escape(' '.join(root.collect_usage_pieces(context)))}",
        ".SH OPTIONS",
        *_options(root, context),
        ".SH COMMANDS",
        *_commands(root, context),
        ".SH EXIT STATUS",
        "0 on success, 1 if problems were found, 2 if the command line or the configuration is wrong.",
        "It is also 2 if standard output cannot be written.",
        "ckptd newest exits with 1 if there is no complete checkpoint, and with 3 if that is unknown.",
        ".SH FILES",
        ".I /etc/ckptd/config.toml",
    ]
    return "\n".join(lines) + "\n"


def _commands(group: click.Command, context: click.Context) -> Iterator[str]:
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield f".SS {_escape(inner.command_path)} {_escape(' '.join(command.collect_usage_pieces(inner)))}"
        yield _escape(_help(command))
        yield from _options(command, inner)
        yield from _commands(command, inner)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and (context.parent is None or "--help" not in parameter.opts):
            yield ".TP"
            yield f".B {_escape(record[0])}"
            yield _escape(record[1])


def _help(command: click.Command) -> str:
    return " ".join((command.help or "").split())


def _escape(text: str) -> str:
    """Escape text so that roff does not interpret it."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped
