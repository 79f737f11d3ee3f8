"""One name means one thing: no class name stands twice, and file names repeat only where a pattern asks for it."""

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "daemon/ckptd"
BY_PATTERN = {
    "__init__.py",
    "interface.py",  # beside each registry
    # `store` has one file for each noun, `core` another for what it means, `steps` for what is done with it
    "backfill.py",
    "checkpoints.py",
    "flags.py",
    "jobs.py",
    "lost_work.py",
    "resumed_from.py",
    "runs.py",
}


def test_no_class_name_stands_twice():
    counts = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert len(counts) > 300
    assert [name for name, count in counts.items() if count > 1] == []


def test_file_names_repeat_by_the_patterns_only():
    counts = Counter(path.name for path in PACKAGE.rglob("*.py"))
    assert {name for name, count in counts.items() if count > 1} == BY_PATTERN
