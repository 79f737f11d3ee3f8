"""Counts GPUs in Slurm's lists of trackable resources (TRES).

Slurm lists GPUs with their model, without it, or both; in the last case, the entry without a model is the sum.
"""

import re

# `gres/gpu=2`, `gres/gpu:a100=2` in allocations; `gres:gpu:2`, `gres/gpu:a100:2`, `gpu:2(IDX:0-1)` in requests.
_GPU = re.compile(
    r"(?:^|,)(?:gres[/:])?gpu(?P<model>[:/][A-Za-z][^,:=]*)?(?:[=:](?P<count>\d+)(?P<unit>[KMG]?))?(?=$|[,(])"
)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def count_gpus(tres: str) -> int:
    """Return the number of GPUs in a TRES string."""
    if "gpu" not in tres:
        return 0
    plain = by_model = 0
    for match in _GPU.finditer(tres):
        count = int(match["count"] or 1) * _UNITS[match["unit"] or ""]
        if match["model"]:
            by_model += count
        else:
            plain += count
    return plain or by_model


def count_requested_gpus(per_node: str, per_job: str, per_task: str, nodes: int, tasks: int) -> int:
    """Return the number of requested GPUs, for clusters that do not account GPUs as TRES."""
    return count_gpus(per_job) or count_gpus(per_node) * nodes or count_gpus(per_task) * tasks
