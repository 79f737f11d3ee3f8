"""What looks like a checkpoint by its name but fits no format: it has a name, a size and an age, nothing more."""

from collections.abc import Iterator

from ckptd.checkpoints.formats import names
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.reader import Reader
from ckptd.checkpoints.tree import Directory
from ckptd.core.model import Level

_NO_CHECKPOINT = frozenset(
    [
        "py",
        "sh",
        "sbatch",
        "slurm",
        "txt",
        "log",
        "out",
        "err",
        "md",
        "toml",
        "yaml",
        "yml",
        "json",
        "cfg",
        "conf",
        "ini",
        "csv",
        "tsv",
        "html",
        "png",
        "svg",
        "pdf",
        "ipynb",
        "lock",
    ]
)


def is_ordinary(name: str) -> bool:
    """Tell whether a name is that of a program, a log, a table or another file that is no checkpoint."""
    suffix = name.rpartition(".")[2].lower()
    return suffix in _NO_CHECKPOINT or "tfevents" in name or name.startswith((".", "slurm-")) or "." not in name


class Generic:
    name = "generic"

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for suffix, files in directory.by_suffix.items():
            if suffix in _NO_CHECKPOINT:
                continue
            for file in files:
                if names.looks_like_checkpoint(file.name):
                    yield names.claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002
        if not any(file.size_bytes for file in claim.files):
            raise DamagedError("the file is empty")
        return Examination()
