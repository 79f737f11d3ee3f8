"""Free ports on loopback, and the loopback address that Slurm's daemons would bind to."""

import contextlib
import random
import socket

_BELOW_EPHEMERAL = range(20000, 32000)  # an outgoing connection must not take one meanwhile


def find_free_ports(count: int) -> list[int]:
    """Find ports that nothing listens on now."""
    with contextlib.ExitStack() as held:
        ports = []
        for port in random.sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL)):
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                break
        return ports


def find_loopback_address(host: str) -> str | None:
    """Resolve this host's name; None where it does not resolve or not to loopback.

    Told to listen on one address only, slurmctld takes that of its host's name, whatever slurm.conf says.
    """
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return None
    return address if address.startswith("127.") else None
