"""Watches worlds with all processors at once: each process takes a share of the runs of one world.

Every process makes its world anew from the seed and follows the whole queue, so that what is known of the cluster is
the same as if one process watched all of it.
"""

import functools
import gc
import multiprocessing
import operator
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from simulation import score
from simulation.observer import Watch
from simulation.ordinary import make_cluster


@dataclass(frozen=True, kw_only=True)
class World:
    """What is to be watched, and how."""

    seed: int
    run_count: int
    days: float
    ordinary_count: int = 0
    share: tuple[int, int] = (0, 1)
    is_always: bool = False
    reads_scripts: bool = False


@dataclass
class Outcome:
    """How a watch did, its flags by run, and what it took."""

    result: score.Result
    flags: dict
    spent: float  # seconds of processor time

    def __add__(self, other):
        return Outcome(self.result + other.result, self.flags | other.flags, self.spent + other.spent)


def watch_all(worlds: list[World], processes: int | None = None) -> Iterator[tuple[World, Outcome]]:
    """Yield each world with how its watch did, in the order given; by default with a process for each processor."""
    processors = processes or os.cpu_count() or 1
    count = -(-processors // len(worlds))  # shares of each
    shares = [[replace(world, share=(number, count)) for number in range(count)] for world in worlds]
    with ProcessPoolExecutor(processors, multiprocessing.get_context("spawn")) as pool:
        waiting = [[pool.submit(watch_share, share) for share in own] for own in shares]
        try:
            for world, futures in zip(worlds, waiting, strict=True):
                yield world, functools.reduce(operator.add, [future.result() for future in futures])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def watch_share(world: World) -> Outcome:
    before = time.process_time()
    runs = make_cluster(world.seed, run_count=world.run_count, ordinary_count=world.ordinary_count, days=world.days)
    gc.freeze()  # it stays: no need to look through it again and again
    watch = Watch(
        runs,
        seed=world.seed,
        share=world.share,
        is_always=world.is_always,
        reads_scripts=world.reads_scripts,
    ).watch()
    return tell(watch, time.process_time() - before)


def tell(watch: Watch, spent: float) -> Outcome:
    """Return how a watch did that has ended."""
    flags = {(watch.seed, each.run.number): list(each.flags.values()) for each in watch.watched}
    return Outcome(score.measure(watch), flags, spent)
