"""Draws the architecture page's picture of the packages: the layers that import-linter enforces, each with its purpose.

`python tests/support/architecture_picture.py` prints it for docs/architecture.md.
"""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "daemon/ckptd"
WIDTH = 26


def draw():
    """Return the picture: the uppermost layer first, every package with the first sentence of its docstring."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    lines = []
    for layer in layers:
        names = [name.strip() for name in layer.split("|")]
        for at, name in enumerate(names):
            lines += _draw_package(PACKAGE / name, "   " if at == 0 else " | ", 0)
        lines.append("    v")
    return "\n".join(lines[:-1])


def _draw_package(path, mark, depth):
    name = path.name + ("/" if path.is_dir() else "")
    lines = [f"{mark} {'  ' * depth}{name:<{WIDTH - 2 * depth}}{_read_purpose(path)}".rstrip()]
    if path.is_dir():
        inner = sorted(each for each in path.iterdir() if (each / "__init__.py").exists())
        lines += [line for each in inner for line in _draw_package(each, "   ", depth + 1)]
    return lines


def _read_purpose(path):
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].partition("; its text")[0].removesuffix(".").replace("`", "")


if __name__ == "__main__":
    print(draw())
