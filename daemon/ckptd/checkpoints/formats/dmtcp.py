"""DMTCP's images: one for each process of a computation, and the script that restarts them together.

The images of one script are one checkpoint. The script is never run: ckptd searches its text for names of images.
`dmtcp_restart_script.sh` is a link to the newest script. DMTCP writes `NAME.dmtcp.temp` and renames it.

The id in an image's name (host, process, time) is that of the process when it was launched: a restarted one keeps it,
because DMTCP's own memory is part of the image (src/uniquepid.cpp, src/processinfo.cpp).

The layout: include/dmtcp.h, include/procmapsarea.h, src/mtcp/mtcp_restart.c of DMTCP. An image, under gzip unless it
was switched off, is two equal headers of 4096 bytes, then descriptors of 4096 bytes, each with the memory it describes,
until one whose address is 0.
"""

import re
import struct
from collections.abc import Iterator
from typing import BinaryIO

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.encodings import bounded_stream, compression
from ckptd.checkpoints.formats.encodings.cursor import Cursor
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import NotRegularError, Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level

_MAGIC = b"DMTCP_CHECKPOINT_IMAGE_v"
_WALKED_VERSIONS = frozenset({4, 5})
_SCRIPT = re.compile(r"dmtcp_restart_script.*\.sh")
_LINK = "dmtcp_restart_script.sh"
_IMAGE = re.compile(rb"ckpt_[^\s\"'/:;\\]{1,255}\.dmtcp\b")
_PROCESS = re.compile(r"_([0-9a-f]+-\d+-[0-9a-f]+)(?:_\d+)?\.dmtcp\Z")
_MOST_IDS = 100  # of the processes of one computation
_SCRIPT_LIMIT = 4 << 20
_PAGE = 4096
_MOST_AREAS = 1 << 20


class Dmtcp:
    name = "dmtcp"
    role_unread = roles.RESTART_FILE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        images = {file.name: file for file in directory.by_suffix.get("dmtcp", ())}
        scripts = [file for file in directory.by_suffix.get("sh", ()) if _SCRIPT.fullmatch(file.name)]
        newest = directory.links.get(_LINK, "").rpartition("/")[2] or _LINK
        for script in sorted(scripts, key=lambda file: (file.name != newest, -file.modified_ns)):
            named = _names_in(script, reader)
            here = [images.pop(name) for name in named if name in images]
            if here:
                yield self._claim_set(script, here, len(named), newest=newest)
        for file in images.values():
            yield self._claim_image(file)
        for file in directory.by_suffix.get("temp", ()):
            if file.name.endswith(".dmtcp.temp"):
                yield self._claim_image(file, "the temporary name of an image that was not finished")

    def _claim_image(self, file: File, temporary: str | None = None) -> Claim:
        """Claim one image; the numbers in its name are of host, process and time."""
        return Claim(format=self.name, shape=Shape.FILE, path=file.path, files=(file,), temporary=temporary)

    def _claim_set(self, script: File, images: list[File], count: int, *, newest: str) -> Claim:
        missing = count - len(images)
        return Claim(
            format=self.name,
            shape=Shape.SET,
            path=script.path,
            files=(script, *images),
            damage=f"{missing} of {count} images that the script restarts are missing" if missing else None,
            is_newest=True if script.name == newest else None,
        )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        images = [file for file in claim.files if not file.name.endswith(".sh")]
        found = [_examine(file, reader, level, is_one_of_many=len(images) > 1) for file in images]
        unknown = next((one for one in found if one.state is not CheckpointState.COMPLETE), Examination())
        ids = dict.fromkeys(match[1] for file in images if (match := _PROCESS.search(file.name)))
        found_of_all = unknown._replace(
            has_checksum=all(one.has_checksum for one in found),
            computation=" ".join(list(ids)[:_MOST_IDS]) or None,
        )
        return found_of_all.shown_as(self.role_unread)


def _names_in(script: File, reader: Reader) -> list[str]:
    """Return the names of images in a script's text, each once. None where it cannot be read."""
    try:
        text = reader.read_whole(script.path, _SCRIPT_LIMIT)
    except (OSError, ValueError, NotRegularError):
        return []
    return list(dict.fromkeys(name.decode("utf-8", "surrogateescape") for name in _IMAGE.findall(text)))


def _examine(file: File, reader: Reader, level: Level, *, is_one_of_many: bool) -> Examination:
    try:
        return _examine_image(file, reader, level)
    except DamagedError as error:
        if not is_one_of_many:
            raise
        raise DamagedError(f"{file.name}: {error}") from error


def _examine_image(file: File, reader: Reader, level: Level) -> Examination:
    if not file.size_bytes:
        raise DamagedError("the file is empty")
    with reader.open(file.path) as stream:
        kind = compression.kind_of(stream.read(6))
        stream.seek(0)
        if kind is not None:
            return _examine_compressed(stream, kind, file.size_bytes, level)
        version = _read_version(stream.read(len(_MAGIC) + 1))
        if version not in _WALKED_VERSIONS:
            doubt = f"it is an image of version {version}, whose layout is not known here unless it is compressed"
            return Examination(state=CheckpointState.UNKNOWN, reason=doubt)
        stream.seek(0)
        _walk(stream)
    return Examination()


def _read_version(head: bytes) -> int:
    """Return the number behind the magic: 2 of DMTCP 2 and 3, 4 of DMTCP 4, 5 of DMTCP 5."""
    _check_head(head)
    if not head[len(_MAGIC) :].isdigit():
        raise DamagedError("it does not begin as a DMTCP image does")
    return int(head[len(_MAGIC) :])


def _examine_compressed(file: BinaryIO, kind: str, size_bytes: int, level: Level) -> Examination:
    stream = bounded_stream.open_stream(file, kind, bounded_stream.output_limit(level, size_bytes))
    try:
        _check_head(stream.read(len(_MAGIC)))
        while stream.read(1 << 20):
            pass
    except bounded_stream.InflatesTooFarError as error:
        if level is Level.FULL:
            return Examination(state=CheckpointState.UNKNOWN, reason=str(error), has_checksum=True)
        bounded_stream.check_trailer(file, kind, size_bytes)
    return Examination(has_checksum=True)


def _check_head(head: bytes) -> None:
    if head[: len(_MAGIC)] != _MAGIC:
        raise DamagedError("it does not begin as a DMTCP image does")


def _walk(file: BinaryIO) -> None:
    """Follow the descriptors of an image that is not compressed."""
    cursor = Cursor(file, order="<")
    size = cursor.size or 0
    if size < 3 * _PAGE:
        _check_head(file.read(len(_MAGIC)))
        raise DamagedError("the image ends within its headers")
    header = cursor.take(_PAGE)
    _check_head(header)
    second = cursor.take(_PAGE)
    if second != header and not _is_area(second):
        raise DamagedError("the two headers of the image differ")
    position = cursor.position if second == header else _PAGE
    for _ in range(_MOST_AREAS):
        file.seek(position)
        area = file.read(_PAGE)
        if len(area) == _PAGE and area[:8] == bytes(8):
            if position + _PAGE != size:
                raise DamagedError("the image goes on behind its closing descriptor, or was not written whole")
            return
        position = _next_area(file, position, area, size)


def _next_area(file: BinaryIO, position: int, area: bytes, size: int) -> int:
    """Return where the next descriptor is: behind the memory, or at once where the memory is all zeros or mapped."""
    if not _is_area(area):
        raise DamagedError(f"a descriptor of memory should be at offset {position}")
    length, mapped = struct.unpack_from("<Q", area, 16)[0], struct.unpack_from("<2Q", area, 72)
    for follows in dict.fromkeys((length, 0, *mapped)):  # the size of a mapped file lies at 72 or 80, by version
        candidate = position + _PAGE + int(follows)
        if candidate + _PAGE <= size:
            file.seek(candidate)
            head = file.read(_PAGE)
            if _is_area(head) or (candidate + _PAGE == size and head[:8] == bytes(8)):
                return candidate
    raise DamagedError(f"the image ends within the memory at offset {position}, or a descriptor behind it is damaged")


def _is_area(area: bytes) -> bool:
    if len(area) < _PAGE:
        return False
    begin, end, length = struct.unpack_from("<3Q", area)
    return bool(begin and begin % _PAGE == 0 and length and end - begin == length)
