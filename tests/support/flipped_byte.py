"""Damage of a file that no scan of its size and time can see."""

import os


def flip_a_byte(path):
    """Change content only: size and modification time stay, as after a fault of the disk."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
