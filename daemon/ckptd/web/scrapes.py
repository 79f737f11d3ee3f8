"""Answers Prometheus with what is already written: no thread, no lock, no database."""

from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = ("GET", "HEAD")


class ReadMetrics(Protocol):
    """Gives the answer to a scrape at once, in Prometheus's text format or as gzip of that."""

    def __call__(self, *, is_compressed: bool) -> bytes: ...


def make_scrape_app(read: ReadMetrics) -> ASGIApp:
    """Return what answers on /metrics."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if request.method not in METHODS:
            response = Response("/metrics can only be read.\n", 405, {"allow": ", ".join(METHODS)})
        else:
            is_compressed = takes_gzip(request.headers.get("accept-encoding", ""))
            headers = {"vary": "accept-encoding"} | ({"content-encoding": "gzip"} if is_compressed else {})
            response = Response(read(is_compressed=is_compressed), headers=headers, media_type=MEDIA_TYPE)
        await response(scope, receive, send)

    return answer


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header asks for gzip."""
    for part in accepted.lower().split(","):
        name, _, quality = part.replace(" ", "").partition(";q=")
        if name == "gzip":
            return quality.strip("0.") != "" if quality else True
    return False
