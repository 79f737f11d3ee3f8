"""Splits the pieces of a request over the tasks of an array job."""

import heapq
from collections.abc import Sequence

from ckptd.core.model import Checkpoint

Tasks = tuple[tuple[Checkpoint, ...], ...]


def split_tasks(pieces: Sequence[Checkpoint], max_tasks: int, task_bytes: int) -> Tasks:
    """Return tasks of about equal size, as many as give each of them `task_bytes`, and `max_tasks` at most.

    A piece is never split, and no task is empty. The largest pieces are placed first, each in the smallest task so far.
    """
    total = sum(piece.size_bytes for piece in pieces)
    count = max(1, min(max_tasks, len(pieces), -(-total // task_bytes)))
    tasks: list[list[int]] = [[] for _ in range(count)]
    heap = [(0, 0, number) for number in range(count)]  # bytes and pieces of each task
    for place in sorted(range(len(pieces)), key=lambda place: (-pieces[place].size_bytes, place)):
        size, length, number = heapq.heappop(heap)
        tasks[number].append(place)
        heapq.heappush(heap, (size + pieces[place].size_bytes, length + 1, number))
    return tuple(tuple(pieces[place] for place in sorted(task)) for task in tasks if task)
