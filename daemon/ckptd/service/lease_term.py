"""One term of a lease: every action of this process asks it first, and nothing is begun after its end."""

import threading
import time
from collections.abc import Sequence

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.agent.client import Answer, Batch
from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.errors import CkptdError
from ckptd.notify.interface import Channel, Message

# of the agent: these change nothing, and are allowed without the lease
READING_OPERATIONS = frozenset(
    {
        "find_workspaces",
        "list_known",
        "list_trash",
        "list_unrecorded",
        "locate",
        "look_up",
        "look_up_paths",
        "reach",
        "read_mutes",
        "read_submission",
        "scan",
        "verify",
    }
)


class LeaseExpiredError(CkptdError):
    """The lease of the cluster could not be renewed in time: nothing is done until it is renewed."""


def read_elapsed() -> float:
    """Return seconds of a clock that nobody can set and that goes on while the host sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseTerm:
    """The time from taking a lease to losing or releasing it. A term that is over never begins again."""

    def __init__(self, cluster: str, epoch: int, valid_until: float) -> None:
        self.cluster = cluster
        self.epoch = epoch
        self.is_lost = False  # another process has taken the lease
        self.has_ended = threading.Event()
        self._valid_until = valid_until  # by `read_elapsed`

    @property
    def is_valid(self) -> bool:
        return not self.has_ended.is_set() and read_elapsed() < self._valid_until

    def require(self) -> None:
        """Raise LeaseExpiredError unless this process may act now."""
        if not self.is_valid:
            why = "was taken by another process" if self.is_lost else "could not be renewed in time"
            raise LeaseExpiredError(f"the lease of the cluster {self.cluster} {why}: nothing was done")

    def extend(self, valid_until: float) -> None:
        """Note a renewal."""
        self._valid_until = valid_until

    def lose(self) -> None:
        """Note that another process has taken the lease."""
        self.is_lost = True
        self.has_ended.set()

    def end(self) -> None:
        """Do nothing more under this term."""
        self.has_ended.set()


class LeasedAgent:
    """The agent, which changes something only while a term is valid."""

    def __init__(self, agent: BatchRunner, term: LeaseTerm) -> None:
        self._agent = agent
        self._term = term

    def run(self, batches: Sequence[Batch]) -> list[list[Answer]]:
        """Run batches, each as its owner.

        Raises:
            LeaseExpiredError: one of them changes something, and the term is not valid.

        """
        if any(batch.operation not in READING_OPERATIONS for batch in batches):
            self._term.require()
        return self._agent.run(batches)


class LeasedChannel:
    """A channel that sends only while a term is valid."""

    def __init__(self, channel: Channel, term: LeaseTerm) -> None:
        self._channel = channel
        self._term = term

    def send(self, message: Message) -> SendOutcome:
        """Send one message, or defer it."""
        try:
            self._term.require()
        except LeaseExpiredError as error:
            return SendOutcome(result=SendResult.DEFERRED, reason=str(error))
        return self._channel.send(message)
