"""One term of a lease: every action of this process asks it first, and nothing is begun after its end."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.agent.client import Answer, Batch
from ckptd.checkpoints.agent.lease_memory import read_elapsed
from ckptd.checkpoints.agent.requests import READING_OPERATIONS
from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.errors import CkptdError
from ckptd.notify.interface import Channel, Message
from ckptd.service.database_file import DatabaseFile
from ckptd.store.continuity import Continuity

MAX_SECONDS_TO_RENEW = 60.0  # a database that refuses, or cannot be reached, says so earlier


class LeaseExpiredError(CkptdError):
    """The lease of the cluster could not be renewed in time: nothing is done until it is renewed."""


class LeaseTerm:
    """The time from taking a lease to losing or releasing it. A term that is over never begins again."""

    def __init__(
        self,
        cluster: str,
        epoch: int,
        valid_until: float,
        file: DatabaseFile | None = None,
        continuity: Continuity | None = None,
    ) -> None:
        """Begin a term that is recorded in the database in `file`, if it has one."""
        self.cluster = cluster
        self.epoch = epoch
        self.continuity = continuity
        self._loss: str | None = None  # why the lease is lost
        self.has_ended = threading.Event()
        self._valid_until = valid_until  # by `read_elapsed`
        self._file = file
        self._renewing_since: float | None = None
        self._show: Callable[[float], None] = lambda _valid_until: None

    @property
    def is_valid(self) -> bool:
        return not self.has_ended.is_set() and read_elapsed() < self._valid_until

    def require(self) -> None:
        """Raise LeaseExpiredError unless this process may act now."""
        if not self.is_valid:
            why = "is lost" if self._loss else "could not be renewed in time"
            raise LeaseExpiredError(f"the lease of the cluster {self.cluster} {why}: nothing was done")

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Measure how long a renewal takes."""
        self._renewing_since = read_elapsed()
        try:
            yield
        finally:
            self._renewing_since = None

    @property
    def seconds_to_renew(self) -> float:
        """Return for how long the database has not answered a renewal; 0 if there is none."""
        since = self._renewing_since
        return 0.0 if since is None else read_elapsed() - since

    def extend(self, valid_until: float) -> None:
        """Note a renewal."""
        self._valid_until = valid_until
        if not self.has_ended.is_set():
            self._show(valid_until)

    def share(self, show: Callable[[float], None]) -> None:
        """Call this now and whenever it changes until when this process may act."""
        self._show = show
        show(0.0 if self.has_ended.is_set() else self._valid_until)

    def lose(self, loss: str) -> None:
        """Note that the lease is lost, and why."""
        self._loss = loss
        self.end()

    def describe_loss(self) -> str | None:
        """Return why this process can act no more; None: it can. A term whose file is gone ends."""
        if self._loss is not None:
            return self._loss
        if self.seconds_to_renew > MAX_SECONDS_TO_RENEW:
            return (
                f"the database has not answered for {MAX_SECONDS_TO_RENEW:.0f} s, as behind a proxy that stalls;"
                " stopping the daemon, because only a restart ends its connections"
            )
        change = self._file.describe_change() if self._file is not None else None
        if change is None:
            return None
        self.end()
        return f"{change}; stopping the daemon, because nothing that it recorded now would last"

    def end(self) -> None:
        """Do nothing more under this term."""
        self.has_ended.set()
        self._show(0.0)


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
        self._require(batches)
        return self._agent.run(batches)

    def run_as_answered(self, batches: Sequence[Batch]) -> Iterator[list[tuple[int, list[Answer]]]]:
        """Run batches, and yield their answers as they come; errors are those of `run`."""
        self._require(batches)
        return self._agent.run_as_answered(batches)

    def _require(self, batches: Sequence[Batch]) -> None:
        if any(batch.operation not in READING_OPERATIONS for batch in batches):
            self._term.require()


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
