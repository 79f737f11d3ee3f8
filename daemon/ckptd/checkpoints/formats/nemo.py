"""NeMo 2: a directory with `weights/`, which Megatron's torch_dist backend wrote, and `context/` with the settings.

Names: `NAME--val_loss=1.2-step=99-consumed_samples=400`, also with `-last`. While it is written, and if its job was
killed then, a file `NAME-unfinished` lies beside it; at its next start NeMo removes it with the directory.
Source: NeMo's nemo/lightning/ckpt_utils.py and nemo/lightning/pytorch/callbacks/model_checkpoint.py.
"""

from collections.abc import Iterator

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, examine_parts
from ckptd.checkpoints.formats.directory_claims import claim_directory
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.megatron import check_distributed, is_distributed
from ckptd.checkpoints.formats.torch_dcp import is_dcp
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_WEIGHTS, _CONTEXT, _SETTINGS = "weights", "context", "io.json"
_UNFINISHED = "-unfinished"


class Nemo:
    name = "nemo"
    role_unread = roles.TRAINING_STATE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for name, child in directory.directories.items():
            weights = child.directories.get(_WEIGHTS)
            if weights is None or _CONTEXT not in child.directories or not (is_dcp(weights) or is_distributed(weights)):
                continue
            marker = directory.files.get(f"{name.removesuffix('-EMA')}{_UNFINISHED}")
            said = parse_name(name)
            yield claim_directory(
                self.name,
                child,
                said,
                name_metrics={key: value for key, value in said.metrics.items() if key != "consumed_samples"},
                in_progress=f"{marker.name} marks it as unfinished" if marker else None,
                markers=(marker,) if marker else (),
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        parts.findings.signs.counts_progress = False  # what was imported from elsewhere has an iteration, too
        found = examine_parts(parts, lambda: check_distributed(parts.below(_WEIGHTS)), self.role_unread)
        return found._replace(reason=found.reason or _check_settings(parts.below(_CONTEXT)))


def _check_settings(context: CheckpointParts) -> str | None:
    """Return what is wrong with the settings: a restart that states its own needs only the weights."""
    if _SETTINGS not in context.files:
        return None
    try:
        context.read_json(_SETTINGS)
    except DamagedError as error:
        return f"the weights are whole, but not the settings: {error}"
    return None
