"""Epoch, step and metric values out of the names that frameworks and people give to checkpoints."""

import re
from dataclasses import dataclass, field

_NUMBER = r"[-+]?(?:\d+\.\d+|\d+)(?:[eE][-+]?\d+)?"
_PAIR = re.compile(rf"(?<![A-Za-z])([A-Za-z][A-Za-z_/]*?)[=:]({_NUMBER})")
_EPOCH = re.compile(r"(?<![A-Za-z])(?:epochs?|ep|e)[-_=.]?(\d+)", re.IGNORECASE)
_STEP = re.compile(
    r"(?<![A-Za-z])(?:global_?steps?|steps?|iterations?|iters?|it|checkpoint|ckpt|restart|state_step|model)[-_=.]?(\d+)",
    re.IGNORECASE,
)
_BEST = re.compile(r"(?<![A-Za-z])best(?![A-Za-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NameFacts:
    """What a name says. Numbers that no word explains are left out."""

    epoch: int | None = None
    step: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    is_best: bool | None = None


def parse_name(name: str) -> NameFacts:
    """Read the facts that a checkpoint's base name states."""
    epoch = _EPOCH.search(name)
    step = _STEP.search(name)
    metrics = {
        key: float(value) for key, value in _PAIR.findall(name) if key.lower() not in {"epoch", "step", "global_step"}
    }
    return NameFacts(
        epoch=int(epoch[1]) if epoch else None,
        step=int(step[1]) if step else None,
        metrics=metrics,
        is_best=True if _BEST.search(name) else None,
    )
