"""Which task of a first scan reads which checkpoints. The tasks agree on it without a list of them."""

import zlib


def count_tasks(entry_count: int, task_entries: int, max_tasks: int) -> int:
    """Return how many tasks share a directory with so many entries: each gets about `task_entries` of them."""
    return max(1, min(max_tasks, -(-entry_count // max(1, task_entries))))


def find_task(path: str, task_count: int) -> int:
    """Return the number of the task that reads the checkpoint at a path relative to the directory."""
    return zlib.crc32(path.encode(errors="surrogatepass")) % task_count
