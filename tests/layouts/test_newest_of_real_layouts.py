"""What `ckptd newest` answers in the directories of real frameworks and codes after three saves."""

import os

import pytest

from ckptd.checkpoints.scanning import find_newest
from ckptd.core.model import Level
from layouts.real import pipeline
from layouts.real.layout import write
from layouts.real.table import ROWS
from support.agent_fork_server import read_here

BY_NAME = {row.name: row for row in ROWS}
# Nobody can tell, and a job must not start from the beginning: the numbers may count anything, no reader here knows
# the format, or it may be the job's input.
UNKNOWN = {
    "AMBER, ntwr < 0", "AMReX", "Athena++", "CatBoost", "Equinox", "GADGET-4", "Hugging Face hub cache", "MLflow",
    "MOOSE",
    "PyTorch Geometric, in memory", "PyTorch Geometric, one file for each graph", "SWIFT",
    "TensorFlow, an exported SavedModel for each version", "WRF", "a data set of numbered arrays", "a zoo of models",
    "embeddings of a corpus", "fastai with the optimizer", "fastai, SaveModelCallback(every_epoch=True)",
    "litgpt, LoRA", "llama-recipes, FSDP with full state", "parameters published with a hash",
}  # fmt: skip
# None: a data set, a code whose files no name gives away, or files that no reader accepts.
NONE = {
    "DVC", "Hugging Face datasets, save_to_disk", "Kaldi nnet3", "Megatron's indexed data sets",
    "MosaicML Streaming shards", "Nek5000", "VELOC", "WebDataset shards",
}  # fmt: skip
# What its own resume option takes, where that is no file of the set.
PATHS = {
    "Hugging Face Trainer": "checkpoint-300",
    "DeepSpeed, ZeRO 1 and 2": "global_step300",
    "Megatron-LM, classic, tensor parallel": "iter_0000300",
    "PyTorch DCP by hand": "checkpoints/step_300",
    "Accelerate, automatic_checkpoint_naming": "checkpoints/checkpoint_2",
    "Orbax CheckpointManager": "ckpts/300",
    "TensorFlow's CheckpointManager": "tf_ckpts/ckpt-3",
    "TensorFlow's estimators": "model.ckpt-3",
    "LAMMPS, a file for each process": "melt.15000.%.rst",
    "NAMD, restartsave": "out.15000",
    "DMTCP": "dmtcp_restart_script_1a2b-40000-65f0c0de.sh",
    "GROMACS": "state.cpt",
    "Lightning, save_top_k=-1": "lightning_logs/version_0/checkpoints/epoch=2-step=1200.ckpt",
    "OpenFOAM": "0.3",
    "OpenFOAM, decomposed": "processor*@0.3",
    "Quantum ESPRESSO": "out/h2.save",
}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """The subject is what is found: to fork a child for each takes several times the processor time."""
    read_here(monkeypatch.setattr)


def play(row, root):
    """Write three saves; return the files that the last of them wrote."""
    last = set()
    for number, save in enumerate(row.saves):
        at = pipeline.saved_at(number).timestamp()
        files = [name for each in row.sets for name in write(root, each.files, save, at)]
        written = set(files) | set(write(root, row.beside, save, at))
        last = written if files else last
    return last


def ask(root):
    return find_newest.decode(find_newest.find_newest([str(root)], Level.STRUCTURE, None, lambda: None))


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in UNKNOWN | NONE])
def test_the_newest_is_what_the_last_save_wrote(name, tmp_path):
    last = play(BY_NAME[name], tmp_path)
    choice = ask(tmp_path)
    found = {os.path.relpath(choice.chosen.path.parent / file, tmp_path) for file in choice.chosen.files}
    assert found <= last
    if name in PATHS:
        assert os.path.relpath(choice.chosen.path, tmp_path) == PATHS[name]


@pytest.mark.parametrize("name", sorted(UNKNOWN | NONE))
def test_what_nobody_can_tell_is_unknown_and_only_what_is_no_checkpoint_is_none(name, tmp_path):
    play(BY_NAME[name], tmp_path)
    choice = ask(tmp_path)
    assert choice.chosen is None
    assert bool(choice.unknown) is (name in UNKNOWN)


def test_a_directory_that_is_itself_the_checkpoint_is_the_answer(tmp_path):
    for name, expected in PATHS.items():
        root = tmp_path / name.replace("/", "_")
        play(BY_NAME[name], root)
        if (root / expected).is_dir() and BY_NAME[name].sets[0].files:
            choice = ask(root / expected)
            assert choice.chosen is not None, (name, choice)
            assert str(choice.chosen.path) == str(root / expected), name
