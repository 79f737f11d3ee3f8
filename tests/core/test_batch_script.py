import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.discovery.batch_script import find_directories
from core.histories import job

JOB = job(17, name="train", array_job_id=15, array_task_id=2)
SCRIPTS = {
    "an option and its value": ("python train.py --checkpoint-dir /scratch/run", ["/scratch/run"]),
    "an option with an equals sign": ("srun python train.py --output_dir=out", ["out"]),
    "GROMACS": ("gmx mdrun -cpi state.cpt -maxh 1", ["state.cpt"]),
    "a variable for it": ("export CKPTDIR=/scratch/$USER/$SLURM_JOB_ID", ["/scratch/alice/17"]),
    "the script's own variables": ('BASE=/data\nRUN="$BASE/run one"\np --save-dir "${RUN}/ck"', ["/data/run one/ck"]),
    "an array": ("p --ckpt-dir ck_$SLURM_ARRAY_TASK_ID", ["ck_2"]),
    "a continued line": ("p --lr 1 \\\n  --checkpoint-dir x", ["x"]),
    "a home": ("CHECKPOINT_DIR=$HOME/ck", ["~/ck"]),
    "said twice": ("CKPTDIR=a\np --checkpoint-dir $CKPTDIR", ["a"]),
    "a comment": ("# p --checkpoint-dir x", []),
    "a command substitution": ("p --checkpoint-dir $(mktemp -d)", []),
    "an unknown variable": ("p --checkpoint-dir $WHERE/x", []),
    "a default that needs a shell": ("p --checkpoint-dir ${WHERE:-x}", []),
    "a variable that became unknown": ("D=a\nD=$(date)\np --checkpoint-dir $D", []),
    "another option behind it": ("p --checkpoint-dir --lr 1", []),
    "an open quote": ("p 'x\nq --checkpoint-dir y", ["y"]),
    "values that multiply": ("A=0123456789\n" + "A=$A$A$A$A$A$A$A$A$A$A\n" * 3 + "CKPTDIR=/$A", []),
    "a line that no person writes": ("p " + "-" * 20_000 + " --ckpt-dir x\nq --ckpt-dir y", ["y"]),
    "more places than anybody needs": ("".join(f"CKPTDIR=/{n}\n" for n in range(99)), [f"/{n}" for n in range(20)]),
    "nothing": ("#!/bin/bash\nsleep 1", []),
}


@pytest.mark.parametrize(("script", "directories"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_is_read_for_where_checkpoints_go(script, directories):
    assert list(find_directories(script, JOB)) == directories


@given(st.text())
def test_no_script_is_too_strange(script):
    assert all(isinstance(path, str) for path in find_directories(script, JOB))
