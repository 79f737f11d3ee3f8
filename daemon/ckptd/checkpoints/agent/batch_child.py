"""What the agent keeps about each of its children."""

from dataclasses import dataclass, field

from ckptd.checkpoints.agent.line_buffer import LineBuffer
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
    unanswered: int
    answered_at: float  # when it last answered, or began
    patience: ScanPatience | None  # None: it is ended at its deadline in any case
    buffer: LineBuffer = field(default_factory=LineBuffer)
    piece_bytes: int = 0  # of the answer whose pieces it sends
