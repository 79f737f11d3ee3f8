"""A checkpoint as far as it tells what attempts resumed from."""

from dataclasses import dataclass
from datetime import datetime

from ckptd.core.model import JobKey, ResumeCandidate


@dataclass(frozen=True, slots=True)
class SavedState:
    """A checkpoint that was complete once, as far as it tells what attempts resumed from."""

    path: str
    completed_at: datetime  # of a copy: when the state that it holds was saved
    deleted_at: datetime | None = None
    step: float | None = None
    epoch: float | None = None
    attempt: tuple[JobKey, int] | None = None  # that was seen writing it
    is_state: bool = True  # its role is `state`
    format: str = ""  # as the readers call it; "" where that was not asked
    continued_count: int | None = None  # how often the program that wrote it was continued, by its own count
    continued_from_step: int | None = None  # the step that it was last continued from, by its own count
    # ids that a continued program keeps and a new start does not have, with spaces; `+` begins those of a log, oldest
    # first
    computation: str | None = None
    appeared_at: datetime | None = None  # since when it was there, where that is not `completed_at`

    @property
    def there_since(self) -> datetime:
        return self.appeared_at or self.completed_at

    @property
    def candidate(self) -> ResumeCandidate:
        return ResumeCandidate(self.path, self.completed_at)
