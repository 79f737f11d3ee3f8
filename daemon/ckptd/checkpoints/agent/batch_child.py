"""What the agent keeps about each of its children."""

from dataclasses import dataclass, field

from ckptd.checkpoints.agent.line_buffer import LineBuffer
from ckptd.checkpoints.agent.request_turns import LEAST_ANSWERS, TURN_OVER
from ckptd.checkpoints.agent.scan_patience import ScanPatience


@dataclass(slots=True)
class BatchChild:
    """A child that carries out one request."""

    request_id: int
    uid: int
    operation: str
    process_id: int
    pipe: int
    deadline: float
    is_leased: bool  # it changes something, and must end with the lease
    item_count: int
    turn_ends_at: float  # when it leaves its place to others, if it has answered enough
    answered_at: float  # when it last answered, or began
    patience: ScanPatience | None  # None: it is ended at its deadline in any case
    unanswered: int = field(init=False)
    buffer: LineBuffer = field(default_factory=LineBuffer)
    piece_bytes: int = 0  # of the answer whose pieces it sends

    def __post_init__(self) -> None:
        self.unanswered = self.item_count

    @property
    def due_at(self) -> float:
        """When to ask whether it must end."""
        return min(self.deadline, self.turn_ends_at) if self._has_answered_enough else self.deadline

    def find_reason_to_end(self, now: float) -> str | None:
        """Return why it must end now; None if it may go on, perhaps with a later deadline."""
        if self._has_answered_enough and self.turn_ends_at <= now:
            return TURN_OVER
        if now < self.deadline:
            return None
        longer = self.patience and self.patience.find_next(now)
        if not longer:
            return "it did not answer in time"
        self.deadline = longer
        return None

    @property
    def _has_answered_enough(self) -> bool:
        return self.item_count - self.unanswered >= LEAST_ANSWERS
