"""Describes the place of a name: its directory without components, and its own words."""

from ckptd.core.checkpoint_sets.name_numbers import COMPONENT, COMPONENT_DIRECTORY, SAVE_WORD
from ckptd.core.checkpoint_sets.pieces import Piece, member_marks, render


def find_anchor(piece: Piece) -> str:
    """Return the directory of a piece, with a `*` for ranks and for components of a training."""
    marks = member_marks(piece.names, len(piece.names) - 1)
    return without_components(render(piece.names, marks).rpartition("/")[0])


def without_components(path: str) -> str:
    """Return a path with a `*` for the word of each directory that holds one component of a training."""
    return "/".join(
        f"{found['before'].removeprefix('_')}*{found['behind']}"
        if (found := COMPONENT_DIRECTORY.fullmatch(part))
        else part
        for part in path.split("/")
    )


def residual_of(piece: Piece) -> str:
    """Return a name without numbers and words for components: `resnet` for `resnet_optim_3.pt`."""
    texts = piece.names[-1].texts
    stem = texts[-1].partition(".")[0]
    joined = " ".join((*texts[:-1], stem)).lower()
    words = COMPONENT.sub(" ", SAVE_WORD.sub(" ", joined))
    return " ".join(word for word in words.replace("_", " ").replace("-", " ").replace("=", " ").split() if word)
