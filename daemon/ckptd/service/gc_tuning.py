"""Tunes Python so that scrapes are answered soon: neither a computing step nor the garbage collector delays them."""

import gc
import sys

# after so long a computing step lets another thread run, such as that of a scrape; with a fifth of it, two steps at
# once take a quarter more CPU, and scrapes are answered hardly sooner
SWITCH_SECONDS = 0.001
YOUNG_OBJECTS = 5_000  # a collection of so many takes about a millisecond
NEVER = 1_000_000_000


def avoid_long_pauses() -> None:
    """Switch threads often, and collect only young garbage automatically.

    A full collection with ten thousand runs in memory stops all threads for most of a second. Reference cycles are few
    and short-lived; `collect` frees the rest.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS, 5, NEVER)


def collect() -> None:
    """Run a full collection."""
    gc.collect()
