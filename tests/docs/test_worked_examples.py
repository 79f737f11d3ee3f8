"""The worked examples of the documentation pass as they are printed, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n# (?P<target>.+?)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
WHERE = re.compile(r"(?:new file )?([^ ,]+)(?:, (after|instead of) the line: (.+))?")
LEFT_OUT = [f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist")]
EXAMPLES = {
    "adding-a-rule.md": ["tests/core/test_growing_checkpoint.py", "tests/present/test_flag_texts.py"],
    "adding-a-source.md": [
        "tests/slurm/test_contract.py",
        "tests/slurm/test_squeue_json.py",
        "-k",
        "squeue-json or squeue_json",
    ],
}


def apply_block(tree, target, code):
    """Write a new file, or put the lines of a block after, or in place of, the one line that it names."""
    path, where, anchor = WHERE.fullmatch(target).groups()
    if where is None:
        assert not (tree / path).exists()
        (tree / path).write_text(code)
        return
    lines = (tree / path).read_text().splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if line.strip() == anchor]
    assert len(places) == 1, f"{path} has {len(places)} lines {anchor!r}"
    kept = lines[: places[0] + (where == "after")]
    (tree / path).write_text("".join([*kept, code, *lines[places[0] + 1 :]]))


def run_tests(tree, chosen):
    environment = os.environ | {"PYTHONPATH": f"{tree}/daemon"}
    command = [sys.executable, "-m", "pytest", "-q", *LEFT_OUT, *chosen]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", EXAMPLES)
def test_an_example_passes_as_it_is_printed_and_fails_without_its_last_block(page, tmp_path):
    for name in ("daemon", "deploy", "migrations", "tests", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    *earlier, last = BLOCK.findall((ROOT / "docs" / page).read_text())
    for target, code in earlier:
        apply_block(tmp_path, target, code)
    assert run_tests(tmp_path, EXAMPLES[page]).returncode == 1
    apply_block(tmp_path, *last)
    finished = run_tests(tmp_path, EXAMPLES[page])
    assert finished.returncode == 0, finished.stdout
