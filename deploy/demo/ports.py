"""Free ports on loopback, and the loopback address that Slurm's daemons would bind to."""

import itertools
import os
import random
import socket
from collections import deque

_BELOW_EPHEMERAL = range(20000, 32000)  # an outgoing connection must not take one meanwhile
_MOST_HELD = 64
_held: deque[int] = deque()  # file descriptors of sockets


def hold(port: int) -> bool:
    """Keep a port from every other caller, in other processes too, until this process ends or holds many newer ones.

    Only a program that sets SO_REUSEADDR may listen on it, as all servers here do. Returns whether it was free.
    """
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # set before, two callers could hold the same port
    _held.append(holder.detach())
    if len(_held) > _MOST_HELD:
        os.close(_held.popleft())
    return True


def find_free_ports(count: int) -> list[int]:
    """Find different ports that nobody uses, and hold them."""
    candidates = random.sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL))
    return list(itertools.islice(filter(hold, candidates), count))


def is_served(port: int) -> bool:
    """Whether a server accepts connections to a port now."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def find_loopback_address(host: str) -> str | None:
    """Resolve this host's name; None where it does not resolve or not to loopback.

    Told to listen on one address only, slurmctld takes that of its host's name, whatever slurm.conf says.
    """
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return None
    return address if address.startswith("127.") else None
