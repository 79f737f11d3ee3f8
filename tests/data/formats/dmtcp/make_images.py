"""Writes the images beside it by DMTCP's published layout; DMTCP itself is in no package."""

import gzip
import struct
from pathlib import Path

PAGE = 4096
HERE = Path(__file__).parent
NAMES = ["ckpt_solver_1a2b-40000-65f0c0de.dmtcp", "ckpt_solver_1a2b-41000-65f0c0df.dmtcp"]


def area(address, size, properties=0):
    words = struct.pack("<11Q", address, address + size, size, 0, 3, 0x22, 0, 0, 0, properties, 0)
    return words.ljust(PAGE, b"\0")


def image():
    header = b"DMTCP_CHECKPOINT_IMAGE_v4.0\n".ljust(PAGE, b"\0")
    memory = area(0x400000, PAGE) + bytes(range(256)) * 16
    zeros = area(0x700000, 16 * PAGE, properties=1)
    return header * 2 + memory + zeros + area(0x7F0000000000, PAGE) + b"stack".ljust(PAGE, b"\xff") + bytes(PAGE)


def main():
    for name in NAMES:
        (HERE / name).write_bytes(gzip.compress(image(), mtime=0))
    (HERE / "ckpt_plain_1a2b-42000-65f0c0e0.dmtcp").write_bytes(image())
    lines = "\n".join(f"  {HERE.name}/{name} \\" for name in NAMES)
    script = f'#!/bin/bash\ngiven_ckpt_files="\\\n{lines}\n"\ndmtcp_restart $given_ckpt_files\n'
    (HERE / "dmtcp_restart_script_1a2b-40000-65f0c0de.sh").write_text(script)


if __name__ == "__main__":
    main()
