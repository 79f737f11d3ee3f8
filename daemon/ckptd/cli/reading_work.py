"""What `ckptd verify` reads checkpoints for: to verify them, or to compare them with their copies.

Where they are read, and how a signal stops that, is the same for both.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from ckptd.checkpoints.executor import Executor, Ticket, VerificationRequest
from ckptd.core.model import RunKey, Unknown


class WantedReading(Protocol):
    """Checkpoints of one run that are read together."""

    @property
    def run(self) -> RunKey: ...


Want_contra = TypeVar("Want_contra", bound=WantedReading, contravariant=True)
Outcome = TypeVar("Outcome")


class ReadingWork(Protocol[Want_contra, Outcome]):
    """How checkpoints are requested, and how results are recorded and shown."""

    @property
    def is_comparison(self) -> bool: ...

    def make_request(self, run: RunKey, wanted: Sequence[Want_contra], now: datetime) -> VerificationRequest:
        """Return the request for all that is wanted of a run."""
        ...

    def list_paths(self, wanted: Want_contra) -> set[PurePosixPath]:
        """Return the paths of the pieces of a request for one of them."""
        ...

    def explain(self, wanted: Iterable[Want_contra], reason: str) -> list[Outcome]:
        """Return the results of what could not be read."""
        ...

    def read_now(self, executor: Executor, wanted: Want_contra, now: datetime) -> list[Outcome]:
        """Read one of them, wait for the result, and record it."""
        ...

    def record(
        self, executor: Executor, ticket: Ticket, wanted: Sequence[Want_contra], now: datetime
    ) -> list[Outcome] | Unknown:
        """Record the result of a ticket, which is ready."""
        ...
