"""Ends a helper process: closes its connection, and kills it if it does not end by itself."""

import contextlib
import socket
import subprocess


def end(process: "subprocess.Popen[bytes]", connection: socket.socket) -> None:
    """Close the connection and wait for the process."""
    with contextlib.suppress(OSError):  # it has ended already
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        # without privileges, this process cannot kill it; closing the connection makes it end by itself
        with contextlib.suppress(PermissionError):
            process.kill()
            process.wait()
