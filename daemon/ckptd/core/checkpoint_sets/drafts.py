"""A checkpoint before it is put together, and drafts that differ only in their progress."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ckptd.core.checkpoint_sets.name_numbers import Name
from ckptd.core.checkpoint_sets.pieces import OtherFile, Piece, Place
from ckptd.core.checkpoint_sets.signatures import Signature
from ckptd.core.model import Grouping


@dataclass(slots=True, kw_only=True)
class SetDraft:
    """The parts of one checkpoint. Paths are relative to the root of the scan.

    `signature` names the parts without their progress, so that checkpoints of a series can be compared.
    `expected_counts` are pairs of how many members the names say there are, and how many there are.
    `ranks` are the values of numbers that count from 0 or 1 without gaps.
    """

    path: str
    parts: Sequence[Piece]
    signature: Signature = frozenset()
    others: Sequence[OtherFile] = ()
    series: str = ""
    progress: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    evidence: str = ""
    has_progress_word: bool = False
    is_directory: bool = False
    doubt: str | None = None
    expected_counts: tuple[tuple[int, int], ...] = ()
    ranks: frozenset[int] = frozenset()

    @property
    def grouping(self) -> Grouping:
        return Grouping(
            series=self.series,
            progress=self.progress,
            evidence=self.evidence,
            has_progress_word=self.has_progress_word,
            is_directory=self.is_directory,
            doubt=self.doubt,
        )

    @property
    def span_ns(self) -> "WriteSpan":
        times = [piece.modified_ns for piece in self.parts]
        return WriteSpan(min(times), max(times)) if len(times) > 1 else WriteSpan(times[0], times[0])


class WriteSpan(NamedTuple):
    """The time in which something was written, in nanoseconds."""

    begin: int
    end: int


@dataclass(slots=True, kw_only=True)
class DraftGroup:
    """Drafts that differ only in their progress.

    `anchor` is the directory in which groups may be parts of the same checkpoints, `residual` the text of the names
    without words for components such as `model` or `optim`, `variants` the numbers of folds, seeds and the like.
    """

    anchor: str
    residual: str
    variants: tuple[str, ...]
    words: tuple[str, ...] = ()
    is_sure: bool = True  # that the number is progress
    is_data: bool = False  # nothing in it proves a state or weights
    is_weights: bool = False  # parameters only
    is_state: bool = False  # each is a state by its own content
    is_companion: bool = False  # its name says so, as `optim` does
    is_result: bool = False  # its name says so, as `samples` does
    is_directory: bool = False
    is_special: bool = False  # such as `best`: a choice among checkpoints, not one of them
    drafts: dict[tuple[int, ...], SetDraft] = field(default_factory=dict)

    def spans(self) -> dict[tuple[int, ...], WriteSpan]:
        return {progress: draft.span_ns for progress, draft in self.drafts.items()}


def list_words(names: Sequence[Name], places: Iterable[Place]) -> tuple[str, ...]:
    """Return the word beside each of some numbers."""
    return tuple(names[at].numbers[index].word for at, index in places)
