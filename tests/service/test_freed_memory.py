"""In a process of its own, because what is set holds for the whole process."""

import subprocess
import sys

from ckptd.service import freed_memory
from demo.patience import allow

PROGRAM = """
import ctypes, pathlib, threading
from ckptd.service import freed_memory

def read_mib():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

kept = []

def work(barrier):
    blocks = [bytearray(2000) for _ in range(20_000)]
    barrier.wait()  # all threads have their blocks at the same time
    kept.extend(blocks[::50])

freed_memory.use_one_heap()
before = read_mib()
barrier = threading.Barrier(8)
threads = [threading.Thread(target=work, args=(barrier,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with_holes = read_mib() - before
freed_memory.release()
print(with_holes > 150, read_mib() - before < 80)
"""


def test_what_threads_freed_between_blocks_that_stay_is_returned_to_the_system():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=allow(120), check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(freed_memory, "_libc", object())
    freed_memory.use_one_heap()
    freed_memory.release()
