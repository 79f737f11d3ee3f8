"""A file system that answers nothing once it is mounted, as one does whose servers are gone.

Whoever asks it sleeps uninterruptibly: not even SIGKILL ends that. It speaks FUSE's protocol with the kernel itself
(include/uapi/linux/fuse.h) and needs root. Run as a program it serves until it is killed, which lets everyone go on.
"""

import ctypes
import os
import struct
import subprocess
import sys
from contextlib import contextmanager

_INIT = 26
_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def mounted(directory):
    """Mount it on a directory for a while; yield whether this system lets it."""
    directory.mkdir()
    server = subprocess.Popen([sys.executable, __file__, str(directory)], stdout=subprocess.PIPE)
    try:
        yield server.stdout.readline() == b"serving\n"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        _libc.umount2(os.fsencode(directory), _DETACH)


def serve(directory):
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if _libc.mount(b"hanging", os.fsencode(directory), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "cannot be mounted")
    opcode, unique = struct.unpack_from("=IQ", os.read(device, 1 << 17), 4)
    assert opcode == _INIT
    answer = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 12, 9, 4096, 1, 0, 0, 0)
    os.write(device, struct.pack("=IiQ", 16 + len(answer), 0, unique) + answer)
    print("serving", flush=True)
    while True:
        os.read(device, 1 << 17)  # from now on whoever asked waits for this process


if __name__ == "__main__":
    serve(sys.argv[1])
