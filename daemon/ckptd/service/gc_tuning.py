"""Keeps Python itself from holding up answers: a scrape waits for no step, so nor may it wait for the interpreter."""

import gc
import sys

SWITCH_SECONDS = 0.0002  # how long a step that computes keeps a scrape waiting, each time the scrape waits for it
YOUNG_OBJECTS = 1_000  # a pass over so many takes less than a millisecond
NEVER = 1_000_000_000


def avoid_long_pauses() -> None:
    """Switch threads often, and stop only for young garbage.

    A pass over all objects of ten thousand runs stops everything for most of a second. Cycles of garbage are few and
    die young; `collect` is for the rest.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS, 5, NEVER)


def collect() -> None:
    """Free what only a pass over all objects finds."""
    gc.collect()
