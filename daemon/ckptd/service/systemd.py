"""Notifies systemd by the protocol of sd_notify(3): one datagram to the socket in NOTIFY_SOCKET."""

import os
import socket
from collections.abc import Mapping
from datetime import timedelta


class Systemd:
    """Notifies the service manager; does nothing if there is none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        watchdog = environment.get("WATCHDOG_USEC", "")
        owner = environment.get("WATCHDOG_PID", "")
        is_ours = not owner or owner == str(os.getpid())
        self.watchdog_interval = timedelta(microseconds=int(watchdog)) if watchdog.isdigit() and is_ours else None

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={_one_line(status)}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def extend_start(self, time: timedelta) -> None:
        """Ask that the start may take so long from now on."""
        self._send(f"WATCHDOG=1\nEXTEND_TIMEOUT_USEC={time // timedelta(microseconds=1)}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            try:
                connection.sendto(message.encode(), address)
            except OSError:
                return  # the daemon runs on if the manager does not listen


def _one_line(text: str) -> str:
    return " ".join(text.split())
