"""Names that jobs of any kind have tell nothing about what a job does."""

import pytest

from ckptd.core.discovery.generic_job_names import is_generic, is_interactive


@pytest.mark.parametrize(
    "name",
    ["bash", "interactive", "wrap", "sbatch", "test", "python", "Python", "/usr/bin/bash", " wrap ", "1", "", "...",
     "sys/dashboard/sys/jupyter", "spawner-jupyterhub"],
)  # fmt: skip
def test_a_name_that_slurm_or_habit_gives_to_any_job_is_generic(name):
    assert is_generic(name)


@pytest.mark.parametrize("name", ["resnet-train", "run.sh", "train.slurm", "test-lr-3e-4", "bashkir-nlp", "pythia-70m"])
def test_the_name_of_a_script_or_of_what_is_computed_is_not(name):
    assert not is_generic(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("jupyter", True), ("Bash", True), ("sys/dashboard/sys/rstudio", True), ("wrap", False), ("jupyterize", False)],
)
def test_a_shell_a_notebook_and_a_session_of_a_portal_are_interactive(name, expected):
    assert is_interactive(name) is expected
