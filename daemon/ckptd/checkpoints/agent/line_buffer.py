"""Splits what is read from a pipe or socket into lines."""


class LineBuffer:
    """Keeps the start of a line whose end was not read yet; its length is that of this start."""

    def __init__(self) -> None:
        self._start = bytearray()

    def __len__(self) -> int:
        return len(self._start)

    def take_lines(self, data: bytes) -> list[bytes]:
        """Return the lines that end in what was read now."""
        *lines, rest = data.split(b"\n")
        if lines:  # what came before has no end of a line, and is not gone through again
            lines[0] = bytes(self._start) + lines[0]
            self._start.clear()
        self._start += rest
        return lines
