"""Answers scrapes of Prometheus with prepared text: no thread, no lock, no database."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = ("GET", "HEAD")


class Metrics(Protocol):
    """Returns the answer to a scrape immediately, in Prometheus's text format or compressed with gzip."""

    @property
    def names_jobs(self) -> bool: ...

    def read(self, *, is_compressed: bool, names_jobs: bool) -> bytes: ...


def make_scrape_app(metrics: Metrics, sees_all: Callable[[Request], Awaitable[bool]]) -> ASGIApp:
    """Return the app for /metrics. It identifies clients only if some metrics are for operators."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if request.method not in METHODS:
            response = Response("/metrics can only be read.\n", 405, {"allow": ", ".join(METHODS)})
        else:
            is_compressed = takes_gzip(request.headers.get("accept-encoding", ""))
            headers = {"vary": "accept-encoding"} | ({"content-encoding": "gzip"} if is_compressed else {})
            names_jobs = metrics.names_jobs and await sees_all(request)
            text = metrics.read(is_compressed=is_compressed, names_jobs=names_jobs)
            response = Response(text, headers=headers, media_type=MEDIA_TYPE)
        await response(scope, receive, send)

    return answer


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header accepts gzip."""
    for part in accepted.lower().split(","):
        name, _, quality = part.replace(" ", "").partition(";q=")
        if name == "gzip":
            return quality.strip("0.") != "" if quality else True
    return False
