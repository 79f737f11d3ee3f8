"""Reads the epoch that Keras's callbacks write into file names, and the metadata of BackupAndRestore.

Sources: keras/src/callbacks/model_checkpoint.py and backup_and_restore.py, and the examples of keras.io.
"""

import json
import re

from ckptd.checkpoints.formats import checkpoint_names
from ckptd.checkpoints.formats.interface import Claim, DamagedError
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import File

# `cp-0003`, `weights.03-1.35`, `weights-improvement-03-0.81`, `model.05-0.23`: the epoch of Keras's own examples, and
# what people make of them: `w.03-0.44`, `best-11-0.83`
_EPOCH = re.compile(
    r"(?:^cp|weights(?:-improvement)?|(?:model|checkpoint|ckpt|snapshot|(?<![A-Za-z])(?:net|best)|^[mw])"
    r"(?=[-_.]\d+[-_]\d+\.\d))[-_.](\d{1,6})(?!\d)"
)
_EPOCH_ALONE = re.compile(  # `3.ckpt`, `3.weights.h5`, `03-1.35.h5`, `0005-l0.390-vl0.391.keras`
    r"(\d{1,6})(?:\.ckpt|\.weights\.h5|\.keras|(?:-[A-Za-z_]{0,16}\d+\.\d+){1,4}(?:\.[A-Za-z]\w{0,11}){0,2})"
)
_BACKUP = re.compile(r"(?P<previous>prev_)?latest\.weights\.h5")
_MAX_METADATA_BYTES = 1 << 16


def epoch_of_name(name: str) -> int | None:
    """Return the epoch that a ModelCheckpoint name states."""
    found = _EPOCH.search(name) or _EPOCH_ALONE.fullmatch(name)
    return int(found[1]) if found else None


def claim_file(
    format_name: str, file: File, *, bare: checkpoint_names.Bare, base: str | None = None, temporary: str | None = None
) -> Claim:
    """Claim one file as `names.claim_file` does, but let the epoch of a ModelCheckpoint name win."""
    claim = checkpoint_names.claim_file(format_name, file, bare=bare, base=base, temporary=temporary)
    epoch = epoch_of_name(base or file.name)
    return claim if epoch is None else claim._replace(name_epoch=epoch, name_step=None)


def backup_metadata(name: str) -> str | None:
    """Return the name of the file that BackupAndRestore writes beside such weights."""
    found = _BACKUP.fullmatch(name)
    return f"{found['previous'] or ''}training_metadata.json" if found else None


def read_backup_epoch(path: str, reader: Reader) -> int | None:
    """Return how many epochs were finished.

    Raises:
        DamagedError: the file is no JSON object.

    """
    try:
        found = json.loads(reader.read_whole(path, _MAX_METADATA_BYTES))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path.rpartition('/')[2]} is no JSON: {error}") from error
    epoch = found.get("epoch") if isinstance(found, dict) else None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0 else None
