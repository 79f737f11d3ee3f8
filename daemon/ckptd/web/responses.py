"""Shared by all web responses: identification, time limits, headers and error messages."""

import functools
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import quote

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ckptd.errors import CkptdError
from ckptd.web import documents, pages
from ckptd.web.access import Access
from ckptd.web.cache import PageReader
from ckptd.web.query import AddressError
from ckptd.web.viewer import Viewer
from ckptd.web.web_config import WebConfig

THREADS = 4  # answers at work at once; /metrics needs none of them
MOST_WAITING = 100  # requests that have a thread or wait for one; and as many whose passwords are to be tried

log = logging.getLogger("ckptd")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class NotFoundError(CkptdError):
    """This page does not exist, or you may not see it."""  # noqa: D404 - shown to the client


class NotKnownError(CkptdError):
    """ckptd could not identify you."""


class TooManyRequestsError(CkptdError):
    """Too many concurrent requests; try again soon."""


class _WaitQueue:
    """A queue of requests with a maximum length, so that waiting requests cannot use up all connections."""

    def __init__(self) -> None:
        self._count = 0

    def __enter__(self) -> None:
        if self._count >= MOST_WAITING:
            raise TooManyRequestsError(TooManyRequestsError.__doc__)
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1


Handler = Callable[["Responder", Viewer, Request], Response]


class Responder:
    """The objects that responses are made with. `access` is replaced at a reload."""

    def __init__(self, reader: PageReader, access: Access) -> None:
        self.reader = reader
        self.access = access
        self._limiter = anyio.CapacityLimiter(THREADS)
        self._gate = anyio.CapacityLimiter(1)
        self._answers, self._guesses = _WaitQueue(), _WaitQueue()
        self._scrape_limiter = anyio.CapacityLimiter(1)

    def endpoint(self, handler: Handler, *, is_public: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that runs a handler in a thread; if not public, only for identified viewers."""

        async def answer(request: Request) -> Response:
            try:
                if await self._is_wrong(request):
                    return self._refuse(request)
                work = functools.partial(self._answer, handler, request, is_public=is_public)
                # abandoned when the daemon stops: nothing waits for a database then
                with self._answers:
                    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
            except TooManyRequestsError as error:
                return self.answer_error(request, HTTPStatus.SERVICE_UNAVAILABLE, str(error))

        return answer

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return an app that requires a password if any are configured."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope)
            try:
                is_wrong = await self._is_wrong(request)
            except TooManyRequestsError as error:
                await self.answer_error(request, HTTPStatus.SERVICE_UNAVAILABLE, str(error))(scope, receive, send)
                return
            await (self._refuse(request) if is_wrong else app)(scope, receive, send)

        return guarded

    async def sees_all(self, request: Request) -> bool:
        """Whether the request comes from an operator."""
        identify = functools.partial(self.access.identify, request)
        viewer = await anyio.to_thread.run_sync(identify, abandon_on_cancel=True, limiter=self._scrape_limiter)
        return viewer is not None and viewer.is_operator

    async def _is_wrong(self, request: Request) -> bool:
        """Whether a password is wrong. New passwords are checked one at a time; cached correct ones do not wait."""
        access = self.access
        if not access.must_try_password(request):
            return False
        identify = functools.partial(access.identify, request)
        with self._guesses:
            return await anyio.to_thread.run_sync(identify, abandon_on_cancel=True, limiter=self._gate) is None

    def _answer(self, handler: Handler, request: Request, *, is_public: bool) -> Response:
        try:
            viewer = self.access.identify(request)
            if viewer is None or not (viewer.is_known or (is_public and not self.access.asks_password)):
                return self._refuse(request)
            return handler(self, viewer, request)
        except AddressError as error:
            return self.answer_error(request, HTTPStatus.BAD_REQUEST, str(error))
        except NotFoundError as error:
            return self.answer_error(request, HTTPStatus.NOT_FOUND, str(error))
        except CkptdError as error:
            log.warning("status page request failed: %s", error)
            return self.answer_error(
                request, HTTPStatus.SERVICE_UNAVAILABLE, "The database does not answer; try again in a minute."
            )
        except Exception:  # the unit of work is one answer
            log.exception("status page request failed")
            return self.answer_error(
                request, HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error of ckptd; see its log for details."
            )

    def _refuse(self, request: Request) -> Response:
        if self.access.asks_password:
            response = self.answer_error(request, HTTPStatus.UNAUTHORIZED, "Log in to see this page.")
            response.headers["www-authenticate"] = 'Basic realm="ckptd", charset="UTF-8"'
            return response
        return self.answer_error(request, HTTPStatus.FORBIDDEN, NotKnownError.__doc__ or "")

    def answer_error(self, request: Request, status: HTTPStatus, text: str) -> Response:
        """Return an error response with one sentence for the client."""
        if request.url.path.startswith("/api/"):
            return Response(documents.encode({"error": text}), status, media_type="application/json")
        return page("message.html", status, viewer=None, title=status.phrase, text=text)


def page(template: str, code: HTTPStatus = HTTPStatus.OK, **values: object) -> Response:
    """Return a page."""
    return Response(pages.render(template, **values), code, media_type="text/html")


def document(value: object) -> Response:
    """Return a JSON document."""
    return Response(documents.encode(value), media_type="application/json")


def redirect(path: str) -> Response:
    """Send the browser to another page of this site."""
    return Response(status_code=HTTPStatus.SEE_OTHER, headers={"location": quote(path, safe="/?&=%:+,;@-._~")})


class GuardedApp:
    """Adds security headers; headers of the web configuration file take precedence."""

    def __init__(self, app: ASGIApp, web_config: WebConfig | None) -> None:
        self._app = app
        self._web_config = web_config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = {name.lower(): value for name, value in (self._web_config.headers if self._web_config else {}).items()}

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"] = list(message.get("headers", ()))
                headers.extend((name.encode(), value.encode()) for name, value in (HEADERS | wanted).items())
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
            await send(message)

        await self._app(scope, receive, send_guarded)
