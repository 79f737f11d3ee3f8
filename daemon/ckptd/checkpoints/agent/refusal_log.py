"""Writes what the agent refuses to its log, a line at most once a minute: the log must not be flooded, nor forged."""

import sys
import time
from typing import Any

from ckptd.core.text.printable import replace_unprintable

LOG_SECONDS = 60.0
MAX_REMEMBERED = 1000


class RefusalLog:
    """The lines of the last minute."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], float] = {}

    def note_refusal(self, uid: Any, reason: str) -> None:
        """Write that a request was refused; both come from the main process, which may be subverted."""
        text = str(uid)[:20]
        self.write(text, f"refused a request for uid {text}: {reason}")

    def write(self, about: str, text: str) -> None:
        """Write one line."""
        now = time.monotonic()
        if len(self._written) > MAX_REMEMBERED:
            self._written.clear()
        if now - self._written.get((about, text), -LOG_SECONDS) >= LOG_SECONDS:
            self._written[about, text] = now
            sys.stderr.write(f"agent: {replace_unprintable(text)}\n")
