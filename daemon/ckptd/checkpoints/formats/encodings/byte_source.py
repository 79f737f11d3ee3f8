"""A window over a file for readers of opcodes: short reads come from memory, long strings are stepped over."""

from typing import BinaryIO

from ckptd.checkpoints.formats.interface import DamagedError

_CHUNK = 1 << 18


class ByteSource:
    """Reads a stream forward.

    `size_bytes` is what it can hold at most, None where nobody knows because it is compressed.
    """

    def __init__(self, file: BinaryIO, size_bytes: int | None = None) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self._buffer = b""
        self._at = 0
        self._base = 0  # where the buffer begins in the stream

    @property
    def position(self) -> int:
        return self._base + self._at

    def take(self, count: int) -> bytes:
        """Return exactly so many bytes.

        Raises:
            DamagedError: the stream ends before.

        """
        end = self._at + count
        if end <= len(self._buffer):
            data = self._buffer[self._at : end]
            self._at = end
            return data
        self.require(count)
        self._fill(count)
        if len(self._buffer) - self._at < count:
            raise self._cut_off()
        data = self._buffer[self._at : self._at + count]
        self._at += count
        return data

    def take_line(self, limit: int) -> bytes:
        """Return the bytes up to the next newline, which is stepped over.

        Raises:
            DamagedError: there is none within the limit.

        """
        while True:
            found = self._buffer.find(b"\n", self._at, self._at + limit)
            if found >= 0:
                line = self._buffer[self._at : found]
                self._at = found + 1
                return line
            held = len(self._buffer) - self._at
            if held >= limit:
                raise DamagedError(f"a line at byte {self.position} has no end")
            self._fill(held + _CHUNK)
            if len(self._buffer) - self._at == held:
                raise self._cut_off()

    def skip(self, count: int) -> None:
        """Step over bytes, reading them only where the stream cannot seek.

        Raises:
            DamagedError: the stream ends before.

        """
        self.require(count)
        held = len(self._buffer) - self._at
        if count <= held:
            self._at += count
            return
        target = self.position + count
        self._buffer, self._at, self._base = b"", 0, target
        if self._size_bytes is not None:
            self._file.seek(count - held, 1)
            return
        left = count - held
        while left:
            data = self._file.read(min(left, _CHUNK))
            if not data:
                raise self._cut_off()
            left -= len(data)

    def require(self, count: int) -> None:
        """Check that so many bytes can still come."""
        if self._size_bytes is not None and count > self._size_bytes - self.position:
            raise self._cut_off()

    def _fill(self, count: int) -> None:
        rest = self._buffer[self._at :]
        self._base += self._at
        self._at = 0
        wanted = max(_CHUNK, count - len(rest))
        if self._size_bytes is not None:
            wanted = min(wanted, self._size_bytes - self._base - len(rest))
        self._buffer = rest + self._file.read(wanted)

    def _cut_off(self) -> DamagedError:
        return DamagedError(f"cut off: it ends inside the record that begins at byte {self.position}")
