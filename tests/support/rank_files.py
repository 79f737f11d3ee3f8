"""Writes checkpoints of which each rank saves a file of its own, as distributed training without a framework does."""

import io

import numpy as np


def make_ranks(number, member_count):
    """Return the files of one checkpoint of so many ranks: each is a complete archive and holds the step."""
    step = 100 * number
    return {f"state_rank{rank:02d}_step{step}.npz": _save(rank, step) for rank in range(member_count)}


def _save(rank, step):
    file = io.BytesIO()
    np.savez(file, **{"opt/mu": np.arange(50.0)}, weights=np.arange(50.0) + rank, step=step)
    return file.getvalue()
