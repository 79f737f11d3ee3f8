"""An adapter keeps the checkpoint that it was trained on."""

import json
import os
import time
from pathlib import Path

import pytest

from ckptd.checkpoints.scanning import adapter_bases, pointers, scan_operation
from ckptd.checkpoints.scanning.adapter_bases import list_bases, read_name
from ckptd.core import retention
from ckptd.core.model import SeenLink
from support import checkpoint_bytes


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
            "results": None,
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
    assert read_name(str(path)) == [SeenLink(str(path), "")]
    large = tmp_path / "large.json"
    large.write_text(json.dumps({"base_model_name_or_path": "/x", "more": "x" * 2**20}))
    assert read_name(str(large)) == [SeenLink(str(large), "")]
    assert read_name(str(tmp_path / "gone.json")) == []
    os.mkfifo(tmp_path / "pipe")
    assert read_name(str(tmp_path / "pipe")) == []


@pytest.mark.parametrize(("owner", "is_feared"), [("user", True), ("root", False)])
def test_of_those_that_nobody_may_read_only_the_users_own_may_name_anything(tmp_path, monkeypatch, owner, is_feared):
    path = tmp_path / "adapter_config.json"
    path.write_text("{}")

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(adapter_bases, "open_keeping_atime", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + (owner == "root"))
    assert read_name(str(path)) == ([SeenLink(str(path), "")] if is_feared else [])


def test_what_could_not_be_looked_up_in_time_stays_named(tmp_path, base, monkeypatch):
    path = adapt(tmp_path / "dpo/checkpoint-100", str(base))
    bases = list_bases([path], (), str(tmp_path / "dpo"))
    assert bases == [SeenLink(path, str(base))]
    monkeypatch.setattr(pointers, "run_steps", lambda steps: [])
    assert pointers.gather((), (), ["/"], str(tmp_path / "dpo"), bases) == bases
    monkeypatch.setattr(adapter_bases, "run_steps", lambda steps: [])
    assert list_bases([path], (), str(tmp_path / "dpo")) == [SeenLink(path, "")]


def test_a_directory_with_an_adapter_is_listed_each_time(tmp_path, base):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/epoch_1.pt").write_bytes(checkpoint_bytes.torch_state(1, 100))
    assert scan(tmp_path / "run")["fingerprint"] is not None
    adapt(tmp_path / "run/adapter", str(base))
    assert scan(tmp_path / "run")["fingerprint"] is None


def test_where_there_are_too_many_adapters_everything_may_be_named(tmp_path, base, monkeypatch):
    monkeypatch.setattr(adapter_bases, "MAX_ADAPTERS", 3)
    for number in range(4):
        path = adapt(tmp_path / f"dpo/checkpoint-{number}", str(base) if number else "/old")
        os.utime(path, (number, number))
    assert targets(scan(tmp_path / "dpo")) == {("checkpoint-3", str(base)), (tmp_path.name, None)}
    (tmp_path / "dpo/checkpoint-0/adapter_config.json").unlink()
    assert targets(scan(tmp_path / "dpo")) == {("checkpoint-3", str(base))}


def test_the_base_is_a_reference_of_its_owner_in_all_runs(tmp_path, base):
    path = adapt(tmp_path / "dpo/checkpoint-100", str(base))
    [link] = [SeenLink(*each) for each in scan(tmp_path / "dpo")["links"]]
    [candidate] = retention.reference_limits._of_link(link)
    assert candidate.reference.path == str(base)
    assert candidate.reference.reason == f"{path} names it as its base model"
