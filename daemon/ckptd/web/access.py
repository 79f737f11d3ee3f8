"""Identifies who sent a request. Without proof, the client is anonymous; with wrong proof, it is refused."""

import ipaddress
import pwd
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from ckptd.errors import CkptdError
from ckptd.web.local_peer import KNOWN_UIDS, parse_address, read_peer_uid
from ckptd.web.viewer import ANONYMOUS, Viewer
from ckptd.web.web_config import WebConfig, read_basic

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
LONGEST_NAME = 256


class AccessError(CkptdError):
    """The access settings of the status page cannot be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessRules:
    """Which identifications are trusted, and who may see all runs."""

    operators: frozenset[str] = frozenset({"root"})
    local_users: bool = True
    trusted_proxies: Sequence[Network] = ()
    proxy_account: str | None = None  # who must own the connection of a proxy on this host
    user_header: str = "X-Remote-User"


class Access:
    """Identifies the viewer of each request by the current rules."""

    def __init__(self, rules: AccessRules, web_config: WebConfig | None = None) -> None:
        self._rules = rules
        self._web_config = web_config
        self._proxy_uid = _find_uid(rules.proxy_account) if rules.proxy_account else None

    @property
    def asks_password(self) -> bool:
        """Whether the web configuration file has users: then everything requires a password, even /metrics."""
        return self._web_config is not None and self._web_config.has_users

    def must_try_password(self, request: HTTPConnection) -> bool:
        """Whether bcrypt must run to identify a request: for a password that is not cached as correct."""
        if self._web_config is None or self._web_config.is_proven(request.headers.get("authorization")):
            return False
        peer = _Peer.of(request)
        return peer is None or not self._is_proxy(peer)

    def identify(self, request: HTTPConnection) -> Viewer | None:
        """Return who sent a request: ANONYMOUS without proof, None with a wrong one."""
        peer = _Peer.of(request)
        if peer is None:
            return ANONYMOUS
        if self._is_proxy(peer):
            return self._from_header(request)
        if self._web_config and self._web_config.has_users:
            return self._from_password(request, self._web_config)
        if self._rules.local_users and _is_direct(request):
            return self._from_kernel(peer)
        return ANONYMOUS

    def _is_proxy(self, peer: "_Peer") -> bool:
        address = parse_address(peer.client[0])
        if address is None or not any(address in network for network in self._rules.trusted_proxies):
            return False
        # anybody on this host can connect from loopback: there the proxy's account proves it
        return not address.is_loopback or (self._proxy_uid is not None and peer.read_uid() == self._proxy_uid)

    def _from_header(self, request: HTTPConnection) -> Viewer | None:
        values = request.headers.getlist(self._rules.user_header)
        if not values or values == [""]:
            return ANONYMOUS
        name = values[0].strip()
        return self._named(name) if len(values) == 1 and _is_name(name) else None

    def _from_password(self, request: HTTPConnection, web_config: WebConfig) -> Viewer | None:
        given = request.headers.get("authorization")
        name, _ = read_basic(given)
        return self._named(name) if _is_name(name) and web_config.is_allowed(given) else None

    def _from_kernel(self, peer: "_Peer") -> Viewer:
        uid = peer.read_uid()
        if uid is None:
            return ANONYMOUS
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            return Viewer(name=f"uid {uid}", uid=uid)
        return Viewer(name=name, uid=uid, is_operator=name in self._rules.operators)

    def _named(self, name: str) -> Viewer:
        return Viewer(name=name, is_operator=name in self._rules.operators)


@dataclass(frozen=True)
class _Peer:
    """The other end of a request's connection."""

    client: tuple[str, int]
    server: tuple[str, int]
    known_uids: dict[str, int | None]  # of this connection: its socket keeps its owner

    @classmethod
    def of(cls, request: HTTPConnection) -> "_Peer | None":
        client, server = request.scope.get("client"), request.scope.get("server")
        if client is None or server is None or server[1] is None:
            return None
        known_uids = request.scope.get("state", {}).get(KNOWN_UIDS, {})
        return cls((client[0], client[1]), (server[0], server[1]), known_uids)

    def read_uid(self) -> int | None:
        """Return the uid on this host; the kernel's table, long where many connect, is read once per connection."""
        if "uid" not in self.known_uids:
            self.known_uids["uid"] = read_peer_uid(self.client, self.server)
        return self.known_uids["uid"]


def _find_uid(account: str) -> int:
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError as error:
        raise AccessError(f"web.proxy_account: there is no account {account!r}") from error


def _is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _is_direct(request: HTTPConnection) -> bool:
    """Whether no proxy forwarded the request, and it uses no foreign host name (DNS rebinding)."""
    if any(header in request.headers for header in _FORWARDING_HEADERS):
        return False
    hosts = request.headers.getlist("host")
    return len(hosts) == 1 and _host_name(hosts[0]) in _LOOPBACK_NAMES


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
