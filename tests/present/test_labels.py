"""People read the evidence of flags by its labels."""

import ast
from pathlib import Path

from ckptd.core import health
from ckptd.present import labels
from ckptd.present.timeline import CheckpointMarkState

NO_EVIDENCE = {"__init__", "evaluation", "interface"}  # their keys are names of rules and settings


def list_keys(tree):
    """Return the keys of all mappings that a module makes, and those it adds to one."""
    for node in ast.walk(tree):
        keys = node.keys if isinstance(node, ast.Dict) else []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            keys = [node.slice]
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def test_each_piece_of_evidence_has_a_label():
    of_rules = {name for _, name in (*labels.LABELS_OF_RULES, *labels.UNSHOWN_OF_RULES)}
    known = {*labels.LABELS, *labels.UNSHOWN, *of_rules, *health.RULES}
    modules = [path for path in Path(health.__file__).parent.glob("*.py") if path.stem not in NO_EVIDENCE]
    found = {key: path.name for path in modules for key in list_keys(ast.parse(path.read_text()))}
    assert len(found) > 100
    assert {key: module for key, module in found.items() if key not in known} == {}


def test_each_rule_has_a_title():
    assert health.RULES.keys() <= labels.TITLES.keys()


def test_each_label_of_a_fate_is_of_one_that_there_is():
    assert labels.FATES.keys() <= set(CheckpointMarkState)
    assert labels.fate_of(CheckpointMarkState.DELETED.value) == "deleted or replaced"
