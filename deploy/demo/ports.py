"""Free ports on loopback."""

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
