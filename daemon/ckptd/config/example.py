"""Generate the example configuration from the sections."""

import ast
import inspect
import textwrap
from datetime import timedelta
from itertools import pairwise
from typing import get_args

from ckptd.config.base import Section, Size
from ckptd.config.cluster import FileSystemRule, SharedRule, SitePurgeRule, WatchRule
from ckptd.config.health import HealthOverride, list_thresholds
from ckptd.config.retention import RETENTION_TABLES, RetentionSection
from ckptd.config.root import Config
from ckptd.core.health import RULES
from ckptd.core.text.quantities import DURATION_UNITS


def format_example() -> str:
    """Return a configuration file with the description and the default of every setting."""
    blocks = [_INTRODUCTION]
    for name, field in Config.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            blocks.append(f"# {kind.__doc__}\n[{name}]\n" + "".join(_example_lines(kind)))
    blocks.append(f"# {WatchRule.__doc__}\n# [[watch]]\n" + "".join(_example_lines(WatchRule)))
    tables: dict[str, type[Section]] = {"file_system": FileSystemRule, "purge": SitePurgeRule, "shared": SharedRule}
    for name, table in tables.items():
        blocks.append(f"{_comment(table)}# [[{name}]]\n" + "".join(_example_lines(table)))
    blocks.append(
        f"# {HealthOverride.__doc__}\n# [[health.override]]\n"
        + "".join(_example_lines(HealthOverride))
        + _OVERRIDE_RULES
    )
    for key, table in RETENTION_TABLES.items():
        heading = f"[[retention.{key}]]" if key == "policy" else f"[retention.{key}]"
        blocks.append(f"{_comment(table)}# {heading}\n" + "".join(_example_lines(table)))
    for name, rule in RULES.items():
        lines = [f"# {key} = {_toml(default)}\n" for key, default in list_thresholds(rule).items()]
        blocks.append(f"{_comment(rule)}# [health.rules.{name}]\n" + "".join(lines))
    return "\n".join(blocks)


_INTRODUCTION = """\
# Configuration of ckptd. All settings are optional. Commented-out values are the defaults; in [[tables]], a value
# without a default is an example.
"""
_READS_SIZES = get_args(Size)[1]  # by which a field of this type is known
_OVERRIDE_RULES = """\
# Thresholds of this override, one table per rule as in [health.rules.NAME]; the others keep the site's values.
# [health.override.rules.at-risk]
# min_chance = 0.5
"""
_SHOWN = {
    "entries_per_second": "20000",
    "parallel": "4",
    "directory": '"/scratch/{user}/{job_name}/checkpoints"',
    "name": '"training"',
    "last": "3",
    "path": '"/scratch"',
    "days": "60",
    "clusters": '["a", "b"]',
    "directories": '["/project"]',
}  # for no default


def _comment(kind: type) -> str:
    """Return the docstring of a section or a rule as comments, without empty lines and bold type."""
    text = inspect.cleandoc(kind.__doc__ or "").replace("**", "")
    return "".join(f"# {line}\n" for line in text.splitlines() if line)


def _example_lines(kind: type[Section]) -> list[str]:
    lines: list[str] = []
    descriptions = _read_descriptions(kind)
    for key, field in kind.model_fields.items():
        lines.extend(f"# {line}\n" for line in descriptions.get(key, "").splitlines())
        if key in {"rules", "override"} or (kind is RetentionSection and key in RETENTION_TABLES):
            continue
        default = field.get_default(call_default_factory=True)
        if key in _SHOWN and (field.is_required() or default is None):
            shown = _SHOWN[key]
        elif isinstance(default, int) and _READS_SIZES in field.metadata:
            shown = f'"{_format_size(default)}"'
        else:
            shown = _toml(default)
        lines.append(f"# {key} = {shown}\n")
    return lines


def _read_descriptions(kind: type[Section]) -> dict[str, str]:
    """Return the strings below the fields of a section; pydantic would read them whenever a command starts."""
    (section,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(section, ast.ClassDef)
    found = {}
    for field, text in pairwise(section.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = inspect.cleandoc(ast.literal_eval(text.value))
    return found


def _toml(value: object) -> str:
    if value is None:
        return "(unset)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return f'"{_format_duration(value)}"'
    if isinstance(value, (int, float)):
        return str(value)
    if value == {}:
        return "{}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return f'"{value}"'


def _format_duration(value: timedelta) -> str:
    seconds = value.total_seconds()
    for unit, size in reversed(DURATION_UNITS.items()):
        if seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _format_size(size_bytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"
