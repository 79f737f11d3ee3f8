"""Files that have the name of a checkpoint but match no format: only their name, size and age are known."""

from collections.abc import Iterator
from typing import BinaryIO

from ckptd.checkpoints.formats import checkpoint_names, foreign_content, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
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
# of formats that are never text: an error page, a pointer of Git LFS or a log is in their place
_BINARY = frozenset(["bin", "tar", "tgz", "gz", "bz2", "xz", "zst", "zip", "nemo", "index", "db", "sqlite"])
_HEAD_BYTES = 4096
_SAMPLES = 256
LAST_CHECKPOINT = "last_checkpoint"


def is_ordinary(name: str) -> bool:
    """Return whether a name is that of a program, a log, a table or another file that is no checkpoint."""
    suffix = name.rpartition(".")[2].lower()
    return suffix in _NO_CHECKPOINT or "tfevents" in name or name.startswith((".", "slurm-")) or "." not in name


class Generic:
    name = "generic"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for suffix, files in directory.by_suffix.items():
            if suffix in _NO_CHECKPOINT:
                continue
            for file in files:
                if checkpoint_names.looks_like_checkpoint(file.name) and not _is_no_checkpoint(file, reader):
                    yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - nothing else is known
        (file,) = claim.files
        if not file.size_bytes:
            raise DamagedError("the file is empty")
        with reader.open(file.path) as opened:
            head = opened.read(_HEAD_BYTES)
            if not any(head) and _holds_only_zeros(opened, file.size_bytes):
                raise DamagedError("it holds only zeros: the write was lost")
        if foreign := foreign_content.name_failed_write(head):
            raise DamagedError(f"{foreign} lies in its place")
        if foreign_content.is_text(head):
            if file.name.rpartition(".")[2].lower() in _BINARY:
                raise DamagedError("it holds text in place of what its name says")
            return Examination(reason="a text file, of no format that is known here")
        return Examination()


def _is_no_checkpoint(file: File, reader: Reader) -> bool:
    """Return whether a file is LAMMPS' input (`in.restart`), Detectron2's marker, an empty signal or a script."""
    if file.name.startswith("in.") or (file.name == LAST_CHECKPOINT and file.size_bytes <= _HEAD_BYTES):
        return True
    if "." in file.name:
        return False
    is_signal = not file.size_bytes and not any(character.isdigit() for character in file.name)
    return is_signal or read_head(reader, file.path, 2) == b"#!"


def _holds_only_zeros(file: BinaryIO, size_bytes: int) -> bool:
    """Check samples from all over a file, or all of a small one."""
    step = max(_HEAD_BYTES, size_bytes // _SAMPLES)
    for at in (*range(0, size_bytes, step), max(0, size_bytes - _HEAD_BYTES)):
        file.seek(at)
        if any(file.read(_HEAD_BYTES)):
            return False
    return True
