"""Allows long requests that only compare directories with their fingerprints, and limits each to one turn.

To start a process takes as much CPU as to compare twenty directories, so such a request may have more items than
others. The agent ends it when its turn is over, and the caller asks again for the directories that it did not reach.
Nothing is lost when its process ends in the middle of a comparison.
"""

import math
from collections.abc import Mapping
from typing import Any

from ckptd.checkpoints.agent.requests import MAX_ITEMS, RequestError

MAX_READ_ITEMS = 100  # of a request that may read files, or change anything
LEAST_ANSWERS = 50  # that a request gives before its turn can end
TURN_SECONDS = 1.0
TURN_OVER = "its turn is over"  # why the agent ended a request whose rest is asked for again


def check_size(request: Mapping[str, Any]) -> None:
    """Refuse a checked request that has more items than others may wait for.

    Raises:
        RequestError: it has.

    """
    if len(request["items"]) > MAX_READ_ITEMS and not _only_compares(request):
        raise RequestError(f"more than {MAX_READ_ITEMS} items, and at most {MAX_ITEMS} only to compare fingerprints")


def find_turn_end(request: Mapping[str, Any], now: float) -> float:
    """Return until when a request may keep others waiting if it has answered enough; infinite for most requests."""
    is_long = len(request["items"]) > LEAST_ANSWERS and _only_compares(request)
    return now + TURN_SECONDS if is_long else math.inf


def _only_compares(request: Mapping[str, Any]) -> bool:
    """Whether no item can make a scan read files; the items are not checked yet."""
    items = request["items"]
    return request["operation"] == "scan" and all(isinstance(each, dict) and each.get("fingerprint") for each in items)
