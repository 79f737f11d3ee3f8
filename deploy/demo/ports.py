"""Free ports on loopback, and the loopback address that Slurm's daemons would bind to."""

import itertools
import random
import socket

_BELOW_EPHEMERAL = range(20000, 32000)  # an outgoing connection must not take one meanwhile


def is_free(port: int) -> bool:
    """Whether nothing listens on a port now."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def find_free_ports(count: int) -> list[int]:
    """Find different ports that nothing listens on now."""
    candidates = random.sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL))
    return list(itertools.islice(filter(is_free, candidates), count))


def find_loopback_address(host: str) -> str | None:
    """Resolve this host's name; None where it does not resolve or not to loopback.

    Told to listen on one address only, slurmctld takes that of its host's name, whatever slurm.conf says.
    """
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return None
    return address if address.startswith("127.") else None
