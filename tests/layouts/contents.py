"""What the files of a layout hold, by the family of their format and by what they are."""

from dataclasses import dataclass

from support import checkpoint_bytes as files

FAMILIES = {  # and their suffixes
    "torch pt": "pt",
    "torch pth": "pth",
    "torch tar": "pth.tar",
    "lightning": "ckpt",
    "numpy": "npz",
    "pickle": "pkl",
    "keras": "h5",
}
_TORCH = frozenset({"torch pt", "torch pth", "torch tar", "lightning"})


@dataclass(frozen=True)
class Told:
    """What a content says of itself; None is left out."""

    epoch: int | None = None
    step: int | None = None
    member: int = 0


def can_hold(family, components):
    """Whether scripts save such components in such files."""
    return components == ("one",) or family in _TORCH


def make(family, kind, told):
    """Return a file of a family of formats: a `state`, `weights`, an `optimizer` or `rng`."""
    value = 0.5 + told.member
    if kind == "optimizer":
        return files.torch_optimizer(value)
    if kind == "rng":
        return files.torch_rng(told.member)
    if kind == "weights":
        makers = {"numpy": files.npz_arrays, "pickle": files.pickle_values, "keras": files.h5_weights}
        return makers.get(family, files.torch_weights)(value)
    if family == "lightning":
        return files.lightning_state(told.epoch, told.step)
    makers = {"numpy": files.npz_state, "pickle": files.pickle_state, "keras": files.h5_keras_state}
    return makers.get(family, files.torch_state)(told.epoch, told.step, value=value)
