"""An adapter keeps the checkpoint that it was trained on."""

import json
import os
import time
from pathlib import Path

import pytest

from ckptd.checkpoints.scanning import scan_operation
from ckptd.checkpoints.scanning.adapter_bases import MAX_ADAPTERS, read_base
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core import retention
from ckptd.core.model import SeenLink
from support import checkpoint_bytes
from support.queue_facts import NOON


@pytest.fixture
def base(tmp_path):
    """A whole model that a training saved, with another one beside it."""
    for step in (500, 1000):
        directory = tmp_path / f"sft/checkpoint-{step}"
        directory.mkdir(parents=True)
        (directory / "model.safetensors").write_bytes(checkpoint_bytes.safetensors())
        (directory / "config.json").write_text("{}")
    return directory


def adapt(directory, base, **others):
    directory.mkdir(parents=True, exist_ok=True)
    said = {"peft_type": "LORA", "base_model_name_or_path": base, **others}
    (directory / "adapter_config.json").write_text(json.dumps(said))
    (directory / "adapter_model.safetensors").write_bytes(checkpoint_bytes.safetensors())
    return str(directory / "adapter_config.json")


def scan(directory, *work_dirs, fingerprint=None):
    return scan_operation.scan(
        {
            "directory": str(directory),
            "now": time.time() + 3600,  # nothing there is young
            "asks_quota": False,
            "candidates": [],
            "read_since": None,
            "work_dirs": list(map(str, work_dirs)),
            "resuming_jobs": [],
            "known": [],
            "fingerprint": fingerprint,
            "allowed_roots": ["/"],
            "max_depth": 8,
            "max_entries": 10_000,
            "write_grace_seconds": 60,
            "seconds": 30,
            "quota_command": None,
        }
    )


def targets(found):
    return {(Path(link[0]).parent.name, link[2]) for link in found["links"]}


def test_an_absolute_path_leads_to_the_base(tmp_path, base):
    adapt(tmp_path / "dpo/checkpoint-100", str(base))
    assert targets(scan(tmp_path / "dpo")) == {("checkpoint-100", str(base))}


@pytest.mark.parametrize(
    ("named", "work_dir"),
    [("sft/checkpoint-1000", "."), ("../sft/checkpoint-1000", "dpo"), ("../../sft/checkpoint-1000", "x")],
)
def test_a_relative_path_is_found_from_the_working_directory_or_above_the_adapter(tmp_path, base, named, work_dir):
    (tmp_path / "x").mkdir()
    adapt(tmp_path / "dpo/checkpoint-100", named)
    assert targets(scan(tmp_path / "dpo", tmp_path / work_dir)) == {("checkpoint-100", str(base))}


@pytest.mark.parametrize(
    "named", ["meta-llama/Llama-3.1-8B", "", 7, None, ["/"], "/nowhere/at/all", "a\0b", "x" * 10_000]
)
def test_what_is_no_path_here_names_nothing(tmp_path, base, named):
    adapt(tmp_path / "dpo/checkpoint-100", named)
    assert targets(scan(tmp_path / "dpo", tmp_path)) == set()


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"[]", b"null"])
def test_a_configuration_that_says_nothing_names_nothing(tmp_path, base, content):
    Path(adapt(tmp_path / "dpo/checkpoint-100", str(base))).write_bytes(content)
    assert targets(scan(tmp_path / "dpo")) == set()


def test_one_that_cannot_be_read_may_name_anything(tmp_path):
    path = tmp_path / "adapter_config.json"
    path.symlink_to("elsewhere")  # exchanged for a link after the listing
    assert read_base(str(path), (), str(tmp_path)) == [SeenLink(str(path), "")]
    assert read_base(str(tmp_path / "gone.json"), (), str(tmp_path)) == []
    os.mkfifo(tmp_path / "pipe")
    assert read_base(str(tmp_path / "pipe"), (), str(tmp_path)) == []


def test_a_directory_with_an_adapter_is_listed_each_time(tmp_path, base):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/epoch_1.pt").write_bytes(checkpoint_bytes.torch_state(1, 100))
    assert scan(tmp_path / "run")["fingerprint"] is not None
    adapt(tmp_path / "run/adapter", str(base))
    assert scan(tmp_path / "run")["fingerprint"] is None


def test_of_very_many_adapters_the_newest_are_read(tmp_path):
    for number in range(MAX_ADAPTERS + 5):
        path = adapt(tmp_path / f"dpo/checkpoint-{number}", "x")
        os.utime(path, (number, number))
    found = inspect_tree(tmp_path / "dpo", now=NOON).adapters
    assert len(found) == MAX_ADAPTERS
    assert str(tmp_path / "dpo/checkpoint-4/adapter_config.json") not in found


def test_the_base_is_a_reference_of_its_owner_in_all_runs(tmp_path, base):
    path = adapt(tmp_path / "dpo/checkpoint-100", str(base))
    [link] = [SeenLink(*each) for each in scan(tmp_path / "dpo")["links"]]
    [candidate] = retention.reference_limits._of_link(link)
    assert candidate.reference.path == str(base)
    assert candidate.reference.reason == f"{path} names it as its base model"
