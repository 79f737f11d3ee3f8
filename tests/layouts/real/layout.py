"""How one framework lays out its files over three saves, and which of them may go.

File names are written as the framework writes them, with two additions:
`<s>`, `<e>`, `<i>` is a number of the save (`<s:07>`: seven digits), and `{0,1}` stands for each of these, as in a
shell. Contents are text (with the same numbers), bytes, or a function of the save.
"""

import itertools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ckptd.core.model import Role

_NUMBER = re.compile(r"<(\w+)(?::(\d+))?>")
_ALTERNATIVES = re.compile(r"\{([^{}]*,[^{}]*)\}")

ANY = "any"  # a role that the test does not ask for
OLDER = (0, 1)  # the sets of the first two of three saves move
NOTHING = ()


@dataclass(frozen=True, kw_only=True)
class Save:
    """The numbers of one save: epoch, step, and how many were saved before it."""

    e: int = 0
    s: int = 0
    i: int = 0
    chosen: tuple[str, ...] = ()  # which of the alternatives the name of the file has

    @property
    def r(self):
        """The first alternative that is a number: mostly the rank."""
        return next((int(each) for each in self.chosen if each.isdecimal()), 0)


SAVES = tuple(Save(e=i + 1, s=100 * (i + 1), i=i) for i in range(3))

Content = str | bytes | Callable[[Save], bytes | Mapping[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class HardLink:
    """A second name of a file that the same save wrote."""

    to: str


@dataclass(frozen=True)
class Only:
    """What one of the saves alone writes, counted from 0."""

    save: int
    content: Content | HardLink


@dataclass(frozen=True, kw_only=True)
class Set:
    """The files of one checkpoint.

    `role` None: anything but `state`; no reader here can prove one. `progress` are the letters of the numbers in the
    names that are its progress, none where the name is fixed. `moves` are the saves whose sets `last = 1` may move;
    `why` says why not the older two where it is others.
    """

    files: Mapping[str, Content | HardLink | Only]
    role: Role | str | None = None
    is_result: bool = False
    progress: str = ""
    path: str | None = None  # of the checkpoint, where that is a directory or a prefix; else the first of its files
    moves: tuple[int, ...] = NOTHING
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One framework: its sets, what else it writes with each save, and where that is written down."""

    name: str
    source: str
    sets: tuple[Set, ...] = ()
    beside: Mapping[str, Content | HardLink | Only] = field(
        default_factory=dict
    )  # never to move, whatever it is taken for
    links: Mapping[str, str] = field(default_factory=dict)  # symbolic: name and target, made anew by each save
    saves: tuple[Save, ...] = SAVES
    note: str = ""

    def __str__(self):
        return self.name


def state(files, progress, **more):
    """A set that a run resumes from: the older two of three may go."""
    return Set(files=files, progress=progress, **{"role": Role.STATE, "moves": OLDER, **more})


def weights(files, progress="", **more):
    """A set of parameters alone."""
    return Set(files=files, progress=progress, **{"role": Role.WEIGHTS, "why": "parameters alone", **more})


def fixed(files, **more):
    """A set whose names have no number: each save replaces the one before."""
    return Set(files=files, **{"role": Role.STATE, "why": "each save replaces the one before", **more})


def unread(files, why="no reader can prove what it holds", **more):
    """A set of which no reader here knows whether it is a state."""
    return Set(files=files, why=why, **more)


def fill(template, save):
    """Put the numbers of a save into a name or a text."""
    return _NUMBER.sub(lambda found: f"{getattr(save, found[1]):{found[2] or ''}}", template)


def expand(template, save):
    """Yield each name that a template stands for, and the save with the alternatives that it has."""
    pieces = _ALTERNATIVES.split(fill(template, save))
    for chosen in itertools.product(*(piece.split(",") for piece in pieces[1::2])):
        name = "".join(itertools.chain.from_iterable(itertools.zip_longest(pieces[::2], chosen, fillvalue="")))
        yield name, replace(save, chosen=chosen)


def write(root, files, save, at):
    """Write the files of one save, dated `at` seconds; return their names."""
    written = []
    for template, given in files.items():
        if isinstance(given, Only) and given.save != save.i:
            continue
        content = given.content if isinstance(given, Only) else given
        for name, numbers in expand(template, save):
            if isinstance(content, HardLink):
                _link(root / name, root / fill(content.to, save))
                written.append(name)
                continue
            found = content(numbers) if callable(content) else content
            tree = found if isinstance(found, Mapping) else {"": found}
            for rest, data in tree.items():
                full = f"{name}/{rest}" if rest else name
                _put(root / full, fill(data, numbers).encode() if isinstance(data, str) else data, at)
                written.append(full)
    return written


def _put(path: Path, data, at):
    path.parent.mkdir(parents=True, exist_ok=True)
    replacement = path.with_name(path.name + ".new")
    replacement.write_bytes(data)
    os.utime(replacement, (at, at))
    replacement.rename(path)  # a new inode each time, as most frameworks have it; a hard link keeps the old content


def _link(path: Path, target: Path):
    path.unlink(missing_ok=True)
    path.hardlink_to(target)
