"""Requests a URL after each round of steps, so that a service elsewhere notices when the daemon stops working."""

import http.client
import logging
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from ckptd.service.step_table import TABLE

TIMEOUT_SECONDS = 10.0
# A round: every step that runs at least once a minute by default, except those with their own thread, which may wait
# for a file system or a relay of one user.
LONGER = {"prune", "remind", "expire", "collect-garbage", "release-memory"}
ROUND = frozenset(step.name for step in TABLE if not step.has_own_thread) - LONGER

log = logging.getLogger("ckptd")


class OutgoingHeartbeat:
    """Sends one GET request when each step of a round has succeeded since the previous request.

    Steps call it from their threads. It never delays them: one thread sends, and rounds that end while a request is
    under way become one request after it. The log names only the host, because the path is usually a secret.
    """

    def __init__(self, url: str | None) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._done: set[str] = set()
        self._is_sending = False
        self._trouble: str | None = None
        self._opener = _make_opener()

    def record(self, step: str) -> None:
        """Record that a step succeeded."""
        with self._lock:
            self._done.add(step)
            if not self._done >= ROUND or self._is_sending:
                return
            self._done.clear()
            url = self.url
            self._is_sending = url is not None
        if url is not None:
            threading.Thread(target=self._send, args=(url,), name="heartbeat", daemon=True).start()

    def _send(self, url: str) -> None:
        try:
            self._log_change(url, self._request(url))
        finally:
            self._is_sending = False

    def _request(self, url: str) -> str | None:
        """Send the request; return why it failed."""
        try:
            with self._opener.open(urllib.request.Request(url), timeout=TIMEOUT_SECONDS):  # noqa: S310 - settings allow http(s) only
                return None
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP status {error.code}"
        except urllib.error.URLError as error:
            return ascii(str(error.reason))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return type(error).__name__ if isinstance(error, ValueError) else ascii(str(error) or type(error).__name__)

    def _log_change(self, url: str, trouble: str | None) -> None:
        host = urlsplit(url).hostname
        if trouble and trouble != self._trouble:
            log.warning("heartbeat to %s failed: %s; trying again after each round", host, trouble)
        elif self._trouble and not trouble:
            log.warning("heartbeat to %s succeeded again", host)
        self._trouble = trouble


def _make_opener() -> urllib.request.OpenerDirector:
    """Return what opens http and https, through the proxy of the environment; it follows no redirects."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener
