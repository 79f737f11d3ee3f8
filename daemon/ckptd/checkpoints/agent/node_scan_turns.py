"""Limits steps in users' jobs: how often there is one in a job, and how many run at once, whoever asks for more."""

from collections.abc import Iterable, Mapping
from typing import Any

from ckptd.checkpoints.agent import requests
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.agent.requests import SCAN_ON_NODE, RequestError

MAX_REMEMBERED = 100_000


class NodeScanTurns:
    """The attempts of jobs in which there was a step lately. Times are in seconds of a clock that never jumps."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], float] = {}

    def admit(self, request: Mapping[str, Any], policy: RequestPolicy, now: float) -> None:
        """Count a request that may lead to a step; what the child will refuse anyway is not counted.

        Raises:
            RequestError: it asks for several steps, or for one too soon after the last.

        """
        if request["operation"] != SCAN_ON_NODE or not policy.node_scans.partitions:
            return
        item, *more = request["items"]
        if more:
            raise RequestError("a request asks for one step in one job")
        try:
            requests.complete(SCAN_ON_NODE, item, policy)
        except RequestError:
            return
        attempt = item["job_id"], item["restart_count"]
        shortest = policy.node_scans.interval_seconds / 2  # the main process may have started meanwhile
        if attempt in self._begun and now - self._begun[attempt] < shortest:
            raise RequestError(f"there was a step in job {attempt[0]} {now - self._begun[attempt]:.0f} s ago")
        if len(self._begun) >= MAX_REMEMBERED:
            self._begun = {each: at for each, at in self._begun.items() if now - at < shortest}
        if len(self._begun) >= MAX_REMEMBERED:
            raise RequestError("there were too many steps lately")
        self._begun[attempt] = now


def must_wait(request: Mapping[str, Any], running: Iterable[str], policy: RequestPolicy) -> bool:
    """Return whether a request must wait until fewer steps run; `running` are the operations at work."""
    return (
        request["operation"] == SCAN_ON_NODE
        and sum(each == SCAN_ON_NODE for each in running) >= policy.node_scans.max_running
    )
