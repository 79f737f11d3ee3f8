"""Reads from the kernel which uid owns the other end of a connection on this host.

Every socket has an owner, and /proc/net/tcp shows it: a user on the node needs no password to see their own runs, and
a port forwarded by ssh belongs to the user who logged in. It says nothing about connections from other hosts.
"""

import ipaddress
import socket
import sys
from pathlib import Path

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_ESTABLISHED = "01"
KNOWN_UIDS = "known_uids"  # in the state of a request: what was read of its connection before


def parse_address(text: str) -> Address | None:
    """Parse an address; return an IPv4-mapped IPv6 address as IPv4."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def read_peer_uid(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the uid that owns the client's socket; None if the client is on another host."""
    theirs, ours = parse_address(client[0]), parse_address(server[0])
    if theirs is None or ours is None or not theirs.is_loopback or not ours.is_loopback:
        return None
    forms = {_format(theirs, client[1]) + " " + _format(ours, server[1])}
    if isinstance(theirs, ipaddress.IPv4Address) and isinstance(ours, ipaddress.IPv4Address):
        forms.add(_format(_in_six(theirs), client[1]) + " " + _format(_in_six(ours), server[1]))
    owners = {uid for table in _TABLES.values() for uid in _read_owners(table, forms)}
    return owners.pop() if len(owners) == 1 else None


def _in_six(address: ipaddress.IPv4Address) -> ipaddress.IPv6Address:
    return ipaddress.IPv6Address(f"::ffff:{address}")


def _format(address: Address, port: int) -> str:
    """Format an address as the kernel does: 32-bit words in the host's byte order, then the port."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    packed = socket.inet_pton(family, str(address))
    words = [int.from_bytes(packed[place : place + 4], sys.byteorder) for place in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _read_owners(table: Path, forms: set[str]) -> list[int]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    rows = (line.split() for line in lines)
    return [int(row[7]) for row in rows if f"{row[1]} {row[2]}" in forms and row[3] == _ESTABLISHED]
