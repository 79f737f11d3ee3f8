"""Serves /metrics and a page with the fleet at a glance, from the last report only."""

import html
import ssl
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from ckptd.core.report import Report
from ckptd.errors import CkptdError
from ckptd.web.web_config import WebConfig

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class ListenError(CkptdError):
    """The address cannot be listened on."""


HANDSHAKE_SECONDS = 10.0


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    tls: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer in the connection's own thread, where a slow handshake keeps nobody else waiting."""
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(HANDSHAKE_SECONDS)
        try:
            secured = self.tls.wrap_socket(request, server_side=True)
        except OSError:
            return  # whoever it was cannot or may not speak with us
        with secured:
            super().finish_request(secured, client_address)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing: a scrape every few seconds is no news."""


class WebServer:
    """Listens from its making until `close`."""

    def __init__(
        self,
        listen: str,
        registry: CollectorRegistry,
        last_report: Callable[[], Report | None],
        web_config: WebConfig | None = None,
    ) -> None:
        host, _, port = listen.rpartition(":")
        self._metrics = make_wsgi_app(registry)
        self._last_report = last_report
        try:
            self._server = _Server((host.strip("[]"), int(port)), _Quiet)
        except (OSError, ValueError) as error:
            raise ListenError(f"web.listen: cannot listen on {listen!r}: {error}") from error
        self._web_config = web_config
        if web_config and web_config.has_tls:
            self._server.tls = web_config.server_context()
        self._server.set_app(self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="web", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environment: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if self._web_config and (extra := list(self._web_config.headers.items())):
            start_plainly = start_response

            def start_response(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                return start_plainly(status, headers + extra, *rest)

        if self._web_config and not self._web_config.is_allowed(environment.get("HTTP_AUTHORIZATION")):
            start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="ckptd"')])
            return [b"Unauthorized\n"]
        if environment["PATH_INFO"] == "/metrics":
            answer: Iterable[bytes] = self._metrics(environment, start_response)
            return answer
        if environment["PATH_INFO"] != "/":
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"There is no such page.\n"]
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
        return [_page(self._last_report()).encode()]


def _page(report: Report | None) -> str:
    if report is None:
        body = "<p>The first look is still going on.</p>"
    else:
        slurm = report.slurm_trouble or "answers"
        flags = {f"{rule} ({severity})": count for (rule, severity), count in report.flags_by_rule.items()}
        body = f"<p>{_text(report.cluster)}: Slurm {_text(slurm)}; looked at {report.made_at:%Y-%m-%d %H:%M:%S} UTC</p>"
        body += _table("Jobs", report.jobs_by_state) + _table("Open flags", flags)
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>ckptd</title><h1>ckptd</h1>{body}'


def _table(title: str, rows: Any) -> str:
    cells = "".join(f"<tr><td>{_text(name)}<td>{count}" for name, count in sorted(rows.items()))
    return f"<h2>{title}</h2><table>{cells or '<tr><td>none'}</table>"


def _text(value: object) -> str:
    return html.escape(str(value))
