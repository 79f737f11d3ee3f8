"""Reads files of torch.save, torch.jit.save and torch.export: zip archives, and the pickles of torch before 1.6.

Names such as `.pt` and `.pth` decide which files are claimed, and their bytes in which format they are. Temporary and
backup names count too: a killed save leaves them, and a complete file of such a name can be loaded. Sources: PyTorch's
torch/serialization.py and caffe2/serialize/inline_container.cc.
"""

from collections.abc import Iterator

from ckptd.checkpoints.formats import checkpoint_names, foreign_content, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import torch_legacy
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.torch_archive import find_prefix, read_beginning, read_torch_archive
from ckptd.checkpoints.formats.encodings.zip_archive import read_zip
from ckptd.checkpoints.formats.facts import examine_state, find_facts
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.state_walk import find_role
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level

_SUFFIXES = ("pt", "pth", "ckpt", "pt2", "ptc", "th", "t7", "tar")
_SHARED_SUFFIXES = (".ckpt", ".t7")  # also of SpeechBrain's texts, of MindSpore and of Torch in Lua
_ZIP_END, _ZIP_END_BYTES = b"PK\x05\x06", 22
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_EXPORTED = frozenset({"models/model.json", "archive_format", "serialized_exported_program.json"})


class TorchFile:
    name = "torch"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in _list_by_suffix(directory):
            if not _is_plain_tar(file.name) or torch_legacy.is_torch(read_head(reader, file.path, 16)):
                yield checkpoint_names.claim_file(self.name, file, bare="epoch")
        for file in directory.by_suffix.get("bin", ()):
            if _is_weights_name(file.name) or torch_legacy.is_torch(read_head(reader, file.path, 16)):
                yield checkpoint_names.claim_file(self.name, file, bare="epoch")
        for file in checkpoint_names.list_bare(directory):
            if torch_legacy.is_torch_save(read_head(reader, file.path, 256)):
                yield checkpoint_names.claim_file(self.name, file, bare="epoch")
        for file, base, reason in checkpoint_names.list_temporaries(directory):
            if _is_torch_name(base) or torch_legacy.is_torch(read_head(reader, file.path, 16)):
                yield checkpoint_names.claim_file(self.name, file, bare="epoch", base=base, temporary=reason)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        with reader.open(claim.files[0].path) as file:
            content = FileSlice.whole(file)
            if claim.path.lower().endswith(_SHARED_SUFFIXES) and _is_of_another_program(content):
                return Examination(reason="of no format that is known here")
            return examine_torch(content, level)


def _is_of_another_program(content: FileSlice) -> bool:
    """Whether the first bytes are unlike torch's, and neither zeros nor what a failed download leaves.

    A zip archive whose beginning was overwritten still ends as torch ends it.
    """
    head = content.read(0, min(foreign_content.HEAD_BYTES, content.size_bytes))
    if torch_legacy.resembles_torch(head) or foreign_content.name_failed_write(head) or _ends_as_zip(content):
        return False
    return any(head) and foreign_content.name_other_format(head) is None


def _ends_as_zip(content: FileSlice) -> bool:
    """Whether a file ends with the last record of a zip archive without a comment, as all of torch are."""
    start = content.size_bytes - _ZIP_END_BYTES
    return start >= 0 and content.read(start, _ZIP_END_BYTES).startswith(_ZIP_END)


def _list_by_suffix(directory: Directory) -> Iterator[File]:
    for suffix in _SUFFIXES:
        if suffix == "pth" and directory.name in _PACKAGES:
            continue  # Python's own `.pth` files, which are text
        yield from directory.by_suffix.get(suffix, ())


def _is_plain_tar(name: str) -> bool:
    """Whether a name may be that of an archive of files as well: PyTorch's tutorial saves `model.tar`."""
    return name.lower().endswith(".tar") and not name.lower().endswith((".pth.tar", ".pt.tar"))


def _is_torch_name(name: str) -> bool:
    return name.lower().endswith((".pt", ".pth", ".ckpt", ".pt2", ".pth.tar"))


def _is_weights_name(name: str) -> bool:
    return name.startswith(("pytorch_model", "optimizer", "scheduler", "training_args", "adapter_model"))


def examine_torch(content: FileSlice, level: Level) -> Examination:
    """Examine one file of torch.save in any of its formats.

    Raises:
        DamagedError: it is damaged, or was not written by torch.

    """
    if content.size_bytes == 0:
        raise DamagedError("the file is empty")
    head = content.read(0, min(16, content.size_bytes))
    if torch_legacy.is_legacy(head):
        return torch_legacy.examine_legacy(content)
    if head.startswith(b"PK"):
        try:
            return _examine_zip(content, level)
        except DamagedError as error:
            return _examine_beginning(content, str(error))
    if not head.strip(b"\0"):
        raise DamagedError("begins with zeros: the write was lost")
    if head[:2] in {b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"}:
        return torch_legacy.examine_plain(content)
    if other := foreign_content.name_other_format(head):
        return Examination(state=CheckpointState.UNKNOWN, reason=f"it is {other}, under a name of torch's")
    raise DamagedError(f"not a file of torch: it begins with {head!r}")


def _examine_beginning(content: FileSlice, reason: str) -> Examination:
    """Return the role and the unsafe names that the pickle at the beginning of a damaged archive still shows."""
    found = read_beginning(content)
    role = roles.NOT_SHOWN if found is None else find_role(found.value)
    unsafe = () if found is None else found.unsafe
    return Examination(state=CheckpointState.DAMAGED, reason=reason, unsafe=unsafe).shown_as(role)


def _examine_zip(content: FileSlice, level: Level) -> Examination:
    archive = read_zip(content)
    if find_prefix(archive) is None:
        if not any(name.partition("/")[2] in _EXPORTED or name in _EXPORTED for name in archive.entries):
            raise DamagedError("a zip archive, but none that torch wrote: it holds no data.pkl")
        archive.check_headers()
        if level is Level.FULL:
            archive.check_content()
        return Examination(has_checksum=archive.has_checksums).shown_as(roles.PROGRAM)
    found = read_torch_archive(content)

    def check() -> bool:
        found.check_structure()
        return found.check_full() if level is Level.FULL else False

    role = roles.PROGRAM if found.is_script else find_role(found.state, found.number)
    return examine_state(find_facts(found.state, found.number), role, found.unsafe, check)
