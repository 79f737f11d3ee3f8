"""SQLite databases with the name of a checkpoint, as trial schedulers and agent frameworks keep them.

Layout: https://www.sqlite.org/fileformat.html, section 1.3. A journal beside it means that a transaction did not end.
"""

from collections.abc import Iterator
from dataclasses import replace

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level


class Sqlite:
    name = "sqlite"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for suffix in ("db", "sqlite", "sqlite3"):
            for file in directory.by_suffix.get(suffix, ()):
                if checkpoint_names.is_called_checkpoint(file.name):
                    journal = directory.files.get(f"{file.name}-journal")
                    unfinished = "a transaction did not end: its journal is there" if journal else None
                    yield replace(checkpoint_names.claim_file(self.name, file), in_progress=unfinished)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - it has no checksum
        with reader.open(claim.files[0].path) as file:
            content = FileSlice.whole(file)
            head = content.read(0, 100)
            if not head.startswith(b"SQLite format 3\0"):
                raise DamagedError("no database of SQLite: its first bytes are others")
            page_bytes = int.from_bytes(head[16:18], "big")
            size_bytes = (65536 if page_bytes == 1 else page_bytes) * int.from_bytes(head[28:32], "big")
            if size_bytes != content.size_bytes:
                raise DamagedError(f"it has {content.size_bytes} bytes and declares {size_bytes}")
        return Examination()
