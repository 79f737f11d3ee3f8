"""The web server: uvicorn in one thread, which stops within seconds regardless of open requests."""

import errno
import socket
import ssl
import threading
from collections.abc import Callable

import uvicorn

from ckptd.errors import CkptdError
from ckptd.web.access import Access, AccessRules
from ckptd.web.app import make_app
from ckptd.web.cache import ListLimitedSettings, PageQueries, PageReader
from ckptd.web.connections import Listener, PatientProtocol, quieten
from ckptd.web.pages import compile_templates
from ckptd.web.responses import Responder
from ckptd.web.scrapes import Metrics
from ckptd.web.web_config import WebConfig

SECONDS_TO_STOP = 2.0
BACKLOG = 128
REMEDY = 'set web.listen to another address, or CKPTD_WEB__LISTEN="" to do without status page and metrics'


class ListenError(CkptdError):
    """The web server cannot listen on the address."""


class WebServer:
    """Listens from its construction until `close`."""

    def __init__(
        self,
        listen: str,
        metrics: Metrics,
        record: PageQueries,
        rules: AccessRules,
        web_config: WebConfig | None = None,
        list_limited_settings: ListLimitedSettings | None = None,
    ) -> None:
        self._web_config = web_config
        reader = PageReader(record, list_limited_settings)
        self._site = Responder(reader, Access(rules, web_config))
        self._socket = Listener(_listen(listen), lambda: self._server.server_state.connections)
        quieten()
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(self._site, metrics, web_config),
                http=PatientProtocol,
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # who connects is what the kernel says, not what a header claims
                server_header=False,
                ws="none",
                backlog=BACKLOG,  # also how many are accepted before any of them is spoken to
                timeout_keep_alive=30,
                timeout_graceful_shutdown=1,
                ssl_context_factory=_make_context_factory(web_config),
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="web", daemon=True)
        self._thread.start()
        self._is_over = threading.Event()
        threading.Thread(target=self._prepare, args=(reader,), name="web-fleet", daemon=True).start()

    def _prepare(self, reader: PageReader) -> None:
        """Do ahead what the first page would wait for."""
        compile_templates()
        reader.refresh_until(self._is_over)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def make_access(self, rules: AccessRules) -> Access:
        """Return new access rules for `change_access`.

        Raises:
            CkptdError: they cannot be used.

        """
        return Access(rules, self._web_config)

    def change_access(self, access: Access) -> None:
        """Identify by these access rules from the next request on."""
        self._site.access = access

    def close(self) -> None:
        """Stop listening; drop responses that are not ready within two seconds."""
        self._is_over.set()
        self._server.should_exit = True
        self._thread.join(SECONDS_TO_STOP)
        self._socket.close()


def _make_context_factory(web_config: WebConfig | None) -> Callable[..., ssl.SSLContext] | None:
    if web_config is None or not web_config.has_tls:
        return None
    context = web_config.server_context()
    return lambda _config, _default: context


def _listen(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not port.isdecimal() or int(port) >= 2**16:
        raise ListenError(f"web.listen: {listen!r} does not end in a port")
    try:
        listener = socket.create_server(
            (host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
    except (OSError, ValueError) as error:
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        reason = "another program listens there" if is_taken else str(error)
        raise ListenError(f"web.listen: cannot listen on {listen!r}: {reason}; {REMEDY}") from error
    # connections inherit it; asyncio does not know such a socket for TCP's, and a client would wait 40 ms for the body
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
