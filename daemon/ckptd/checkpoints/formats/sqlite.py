"""SQLite databases with the name of a checkpoint, as trial schedulers and agent frameworks keep them.

Layout: https://www.sqlite.org/fileformat.html, section 1.3. A journal beside it means that a transaction did not end.
"""

from collections.abc import Iterator

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import CheckpointState, Level

_LARGEST_PAGE = 65536


class Sqlite:
    name = "sqlite"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for suffix in ("db", "sqlite", "sqlite3"):
            for file in directory.by_suffix.get(suffix, ()):
                if checkpoint_names.is_called_checkpoint(file.name):
                    journal = directory.files.get(f"{file.name}-journal")
                    unfinished = "a transaction did not end: its journal is there" if journal else None
                    yield checkpoint_names.claim_file(self.name, file)._replace(in_progress=unfinished)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - it has no checksum
        with reader.open(claim.files[0].path) as file:
            content = FileSlice.whole(file)
            head = content.read(0, 100)
            if not head.startswith(b"SQLite format 3\0"):
                raise DamagedError("no database of SQLite: its first bytes are others")
            page_bytes = int.from_bytes(head[16:18], "big")
            page_bytes = _LARGEST_PAGE if page_bytes == 1 else page_bytes
            size_bytes = page_bytes * int.from_bytes(head[28:32], "big")
            is_current = head[24:28] == head[92:96]  # programs before SQLite 3.7 leave an old size
            if content.size_bytes < size_bytes and is_current:
                raise DamagedError(f"it has {content.size_bytes} bytes and declares {size_bytes}")
            if not page_bytes or content.size_bytes % page_bytes:
                raise DamagedError(f"it has {content.size_bytes} bytes, which are no whole pages of {page_bytes}")
            last = content.read(content.size_bytes - page_bytes, page_bytes)
        has_free_pages = any(head[36:40])
        if not any(last) and not has_free_pages:
            doubt = "its last page holds zeros only: a lost write or data, no checksum in this format can tell"
            return Examination(state=CheckpointState.UNKNOWN, reason=doubt)
        return Examination()
