"""Names the parts of a checkpoint without their progress, so that the checkpoints of a series can be compared.

Numbers of unknown meaning are removed and the parts counted: in `epoch_3/ckpt_3_0.pt` and `epoch_4/ckpt_4_0.pt` it is
unknown which number counts ranks, but both have the same number of parts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from ckptd.core.checkpoint_sets.companions import is_result, is_small_file
from ckptd.core.checkpoint_sets.name_numbers import EPOCH_WORDS, Meaning, Name, parse_name
from ckptd.core.checkpoint_sets.pieces import Piece, Place, render_series

# A name, and its position (first, second ...) among those that differ only in numbers of unknown meaning.
Signature = frozenset[tuple[str, int]]

UNREAD = frozenset((Meaning.PROGRESS, Meaning.SAVE, Meaning.BARE, Meaning.OPEN))


def sign(pieces: Iterable[Piece]) -> Signature:
    """Return the names of the parts of one checkpoint, and of a framework's other files in its directory."""
    names = [name for piece in pieces for name in _list_names(piece)]
    if len(names) == 1:
        return frozenset([(names[0], 0)])
    counts = Counter(names)
    return frozenset([(name, at) for name, count in counts.items() for at in range(count)])


def is_alone(piece: Piece) -> bool:
    """Whether a piece is a single file, not several files that a framework reads as one."""
    return len(piece.checkpoint.files) == 1 and not piece.is_directory


def _list_names(piece: Piece) -> Iterator[str]:
    shown = render_series(piece.names, {}, _list_unread(piece.names))
    if is_alone(piece):
        yield shown
        return
    parent, slash, _ = shown.rpartition("/")
    is_directory = piece.is_directory  # once: it goes through all files
    for file in piece.checkpoint.files:
        if not is_small_file(file) and not is_result(file):
            below = file.partition("/")[2]
            yield f"{shown}/{_show(below)}" if is_directory else f"{parent}{slash}{_show(file)}"


@lru_cache(maxsize=65_536)
def _show(path: str) -> str:
    names = tuple([parse_name(part) for part in path.split("/")])
    return render_series(names, {}, _list_unread(names))


def _list_unread(names: Sequence[Name]) -> list[Place]:
    return [
        (at, index)
        for at, name in enumerate(names)
        for index, number in enumerate(name.numbers)
        if number.meaning in UNREAD or number.word in EPOCH_WORDS  # beside tp and pp, `ep` is read as a rank
    ]
