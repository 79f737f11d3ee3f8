"""Notices that the agent no longer answers, though its process is there: stopped, or stuck in the kernel."""

import threading

from ckptd.checkpoints.agent.client import AgentClient
from ckptd.errors import CkptdError

PING_SECONDS = 5.0


class AgentWatch:
    """Pings the agent from a thread of its own, because sending to a stopped agent may block.

    Silence is counted in calls of `is_silent`, not in seconds: while the whole host or this process is stopped,
    nobody calls it.
    """

    def __init__(self, agent: AgentClient, max_calls: int) -> None:
        """Take the agent for silent after `max_calls` calls of `is_silent` without an answer."""
        self._agent = agent
        self._max_calls = max_calls
        self._call_count = 0
        self._is_over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._ping_until_over, name="agent-watch", daemon=True).start()

    def stop(self) -> None:
        self._is_over.set()

    def is_silent(self) -> bool:
        """Count one more call since the last answer, and return whether there were too many."""
        self._call_count += 1
        return self._call_count > self._max_calls

    def _ping_until_over(self) -> None:
        while not self._is_over.is_set():
            try:
                self._agent.ping()
            except (CkptdError, OSError):
                return  # the agent has ended, which the daemon notices by itself
            self._call_count = 0
            self._is_over.wait(PING_SECONDS)
