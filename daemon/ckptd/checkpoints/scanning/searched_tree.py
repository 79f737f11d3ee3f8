"""Lists what programs may have saved below a directory, once for all searches of one request.

The tasks of an array, and jobs that are submitted from one place, have one working directory. Each of them is searched
for if nobody names its checkpoints. To list the directory each time would take the square of their number.
"""

import os
import re
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import nullcontext
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Self

from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.interface import Claim
from ckptd.checkpoints.scanning.allowed_roots import open_allowed
from ckptd.checkpoints.scanning.claiming import claim_in_child
from ckptd.checkpoints.scanning.examination import examine_in_child
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.shared_parser import SharedParser
from ckptd.checkpoints.scanning.tree import list_places
from ckptd.core.discovery.input_names import is_named_for_inputs
from ckptd.core.model import Level, Role
from ckptd.core.runs.resumable import is_named_as_checkpoint

# containers of any kind of data: a search takes them for checkpoints only if their names say so
DATA_FORMATS = frozenset({"numpy", "pickle", "hdf5", "matlab", "r", "octave", "sqlite", "generic"})
_STATE = re.compile(r"(?<![a-z])states?(?![a-z])")
_LAST = "searched_tree"  # what one item of a request leaves for the next one


class FoundClaim(NamedTuple):
    """A checkpoint that a search found: when it was written last, and in which directory."""

    modified_ns: int
    home: str
    claim: Claim


class SearchedTree:
    """The checkpoints below a directory as they were when it was listed."""

    def __init__(self, root: str, item: dict[str, Any]) -> None:
        """List the directory; `item` has the limits, and perhaps a parser.

        Raises:
            OutsideRootsError: the directory is not below an allowed root.
            OSError: it cannot be opened.

        """
        self.root = root
        self._allowed_roots: Sequence[str] = item["allowed_roots"]
        self._roles: dict[tuple[str, str], Role] = {}
        self._named_for_inputs: dict[str, bool] = {}
        with open_allowed(root, self._allowed_roots) as descriptor, Reader(descriptor) as reader:
            tree = list_places(descriptor, max_depth=item["discovery_depth"], max_entries=item["discovery_entries"])
            self.unread_count = tree.count_entries()
            self.problems = tuple(f"{root}/{problem.what}: {problem.reason}" for problem in tree.walk_problems())
            parser: SharedParser | None = item.get("parser")
            with (parser and parser.begin(root, descriptor, tree)) or nullcontext() as shared:
                claims, _ = claim_in_child(tree, reader, limits=ChildLimits(), shared=shared)
        self.claims = tuple(
            FoundClaim(
                max((file.modified_ns for file in claim.files), default=0),
                os.path.normpath(os.path.join(root, _home_of(claim.path))),
                claim,
            )
            for claim in claims
            if _may_be_checkpoint(claim)
        )

    @classmethod
    def read(cls, root: str, item: dict[str, Any]) -> Self:
        """Return the directory as the item before in the same request listed it; list it if that read another one."""
        memory: MutableMapping[str, Any] | None = item.get("memory")
        found: Self | None = None if memory is None else memory.get(_LAST)
        if found is None or found.root != root:
            found = cls(root, item)
        if memory is not None:
            memory[_LAST] = found  # no more than one, which may have as many files as a search reads
        return found

    def take_unread_count(self) -> int:
        """Return how many directory entries were read since the last call."""
        count, self.unread_count = self.unread_count, 0
        return count

    def is_for_inputs(self, directory: str) -> bool:
        """Whether the name of a directory here suggests downloads; each is asked about once for all searches."""
        known = self._named_for_inputs.get(directory)
        if known is None:
            known = is_named_for_inputs(PurePosixPath(os.path.relpath(directory, self.root)))
            self._named_for_inputs[directory] = known
        return known

    def read_roles(self, claims: Iterable[Claim]) -> list[Role]:
        """Return the roles of these claims; the files of each are read once.

        Raises:
            OutsideRootsError, OSError: the directory was exchanged meanwhile.

        """
        asked = [*claims]
        unread = [each for each in asked if _name_of(each) not in self._roles]
        if unread:
            with open_allowed(self.root, self._allowed_roots) as descriptor, Reader(descriptor) as reader:
                answers = examine_in_child(unread, reader, Level.STRUCTURE, limits=ChildLimits())
                self._roles |= {_name_of(each): answer.role for each, answer in zip(unread, answers, strict=True)}
        return [self._roles[_name_of(each)] for each in asked]


def _name_of(claim: Claim) -> tuple[str, str]:
    return claim.format, claim.path


def _may_be_checkpoint(claim: Claim) -> bool:
    facts = parse_name(PurePosixPath(claim.path).name)
    is_numbered = facts.epoch is not None or facts.step is not None
    return claim.format not in DATA_FORMATS or is_numbered or _is_named_as_state(claim.path)


def _is_named_as_state(path: str) -> bool:
    """Whether a container of any data is named for what a program resumes from."""
    name = PurePosixPath(path)
    return is_named_as_checkpoint(name) or _STATE.search(name.stem.lower()) is not None


def _home_of(path: str) -> str:
    """The directory that holds the checkpoints: above those that are named for one epoch or step each."""
    parent = PurePosixPath(path).parent
    while parent.name and (facts := parse_name(parent.name)) and (facts.epoch is not None or facts.step is not None):
        parent = parent.parent
    return str(parent)
