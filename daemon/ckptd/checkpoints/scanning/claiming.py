"""Lets every format claim its checkpoints in a tree, in a limited child, because a claim may read hostile files.

The child processes the directories in an order that its parent knows, and answers with the claims of each. The parent
matches them with its own listing, so that no answer can name a file that was not listed. The same child can then
examine the claimed checkpoints, because starting another one would cost as much as reading twenty small files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeGuard

from ckptd.checkpoints.agent.limited_child import ChildLimits, ChildReporter, LimitedChild, RunningChild
from ckptd.checkpoints.formats import FORMATS, marker
from ckptd.checkpoints.formats.interface import Claim, Format, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.shared_parser import Memory, SharedTask
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Unknown

_MAX_FAILURES = 100
_SECONDS_PER_FILE = 0.01  # on a slow file system; a claim may open each of its files
_TEXTS = ("in_progress", "temporary", "damage", "note", "unlisted")
_FLAGS = ("is_newest", "is_best", "is_listed")
_SAID: dict[str, Callable[[Any], str | bool]] = {**dict.fromkeys(_TEXTS, str), **dict.fromkeys(_FLAGS, bool)}
_SHAPES = {each.value: each for each in Shape}
_get_said = attrgetter(*_TEXTS, *_FLAGS)
_SILENT = (None,) * len(_SAID)
_NO_METRICS: Mapping[str, float] = {}
_MOST_TOGETHER = 1000  # plain claims in one answer

Claims = tuple[list[Claim], list[File]]
GoOn = Callable[[Sequence[Claim], ChildReporter], None]  # what a child does with all claims, after it has reported them


def claim_tree(tree: Directory, reader: Reader) -> Claims:
    """Let every format claim its checkpoints in this process, outermost directories first; also return the rest."""
    claims: list[Claim] = []
    left: list[File] = []
    named = marker.find_named(tree, reader)
    for directory, taken, rest in _walk([tree], lambda directory: _claim_all(directory, reader, named)):
        for problem in (one for one in taken if isinstance(one, Unknown)):
            directory.problems.append(problem)
        claims.extend(one for one in taken if isinstance(one, Claim))
        left.extend(rest.files.values())
    return claims, left


def claim_in_child(tree: Directory, reader: Reader, *, limits: ChildLimits, shared: SharedTask | None = None) -> Claims:
    """Do the same as `claim_tree` in limited children.

    If one fails, the failure of its current format is recorded for its current directory, and a new child continues.
    """
    claims, left, _ = claim_and_go_on(tree, reader, None, limits=limits, shared=shared)
    return claims, left


def claim_and_go_on(
    tree: Directory, reader: Reader, go_on: GoOn | None, *, limits: ChildLimits, shared: SharedTask | None = None
) -> tuple[list[Claim], list[File], RunningChild | None]:
    """Do the same as `claim_in_child`, and let the last child go on; its further answers are the caller's to read.

    The caller closes that child. It is None where no file was to be read, or without `go_on`. With a `shared` child,
    that one claims, and is returned if it did not fail; the caller has begun it and closes it.
    """
    parent = _Parent(tree)
    seconds = limits.seconds + _SECONDS_PER_FILE * sum(len(each.files) for each in tree.walk())
    if shared is not None and parent.pending:
        shared.ask(_claim_for_parent, tree, seconds, seconds=seconds)
        _follow(parent, shared)
        if not parent.pending:
            return parent.claims, parent.left, shared
        if shared.child.failure is None:
            shared.child.fail(ValueError("fewer answers than questions"))
    failed: dict[int, str] = {}  # by the number of directory and format
    while parent.pending:
        if len(failed) > _MAX_FAILURES:
            tree.problems.append(Unknown(what=tree.path or ".", reason=f"given up: {failed.popitem()[1]}"))
            break
        with ExitStack() as stack:
            child = LimitedChild(
                lambda teller: _run(parent, failed, reader, seconds, go_on, teller),
                limits,
                lambda _: seconds,
                [reader.descriptor],
            )
            running = stack.enter_context(RunningChild(child))
            _follow(parent, running)
            if not parent.pending and go_on is not None:
                stack.pop_all()
                return parent.claims, parent.left, running
            if not parent.pending:
                break
            step = child.step
            is_new = step // len(FORMATS) >= parent.done_count and step not in failed
            at = step if is_new else _first_not_in(failed, parent.done_count * len(FORMATS))
            failed[at] = child.failure or "its reader ended too early"
    return parent.claims, parent.left, None


def _follow(parent: "_Parent", running: RunningChild) -> None:
    """Take a child's answers until all of the tree is claimed or the child fails."""
    parent.begin_directory()
    for answer in running.answers:
        try:
            parent.take(answer)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            running.child.fail(error)
            return
        if not parent.pending:
            return


class _Parent:
    """Follows the child through the tree."""

    def __init__(self, tree: Directory) -> None:
        self.tree = tree
        self.pending = [tree] if not tree.is_empty else []
        self.claims: list[Claim] = []
        self.left: list[File] = []
        self.done_count = 0
        self._taken: list[Claim] = []
        self._problems: list[Unknown] = []
        self._listed: list[File] = []  # the directory's own files, by their places
        self._plain_count = 0

    @cached_property
    def _files(self) -> dict[str, File]:
        return {file.path: file for file in self.tree.walk_files()}

    def begin_directory(self) -> None:
        """Forget what was answered of a directory whose last answer did not arrive."""
        self._problems, self._taken, self._plain_count = [], [], 0
        self._listed = list(self.pending[-1].files.values()) if self.pending else []

    def take(self, answer: Any) -> None:
        """Take one answer: a claim, plain claims, a problem, or None after the last of a directory.

        Raises:
            KeyError, TypeError, ValueError: it is none of these.

        """
        directory = self.pending[-1]
        if isinstance(answer, str):
            self._problems.append(Unknown(what=directory.path or ".", reason=answer))
        elif isinstance(answer, list):
            self._taken += decode_plain(answer, self._listed)
            self._plain_count += len(answer[1])
            if self._plain_count > len(self._listed):
                raise ValueError("more claims than files")
        elif answer is not None:
            self._taken.append(decode(answer, directory, self._files))
        else:
            _, _, rest = next(_walk(self.pending, lambda _: self._taken))
            self.claims.extend(self._taken)
            self.left.extend(rest.files.values())
            directory.problems.extend(self._problems)
            self.done_count += 1
            self.begin_directory()


def _first_not_in(failed: Mapping[int, str], step: int) -> int:
    while step in failed:
        step += 1
    return step


def _run(
    parent: _Parent,
    failed: Mapping[int, str],
    reader: Reader,
    seconds: float,
    go_on: GoOn | None,
    teller: ChildReporter,
) -> None:
    """Run as the child: answer with the claims of each directory, and None after the last one of each; then go on."""
    number = parent.done_count
    claims = list(parent.claims)
    named = marker.find_named(parent.tree, reader)

    def begin(index: int) -> str | None:
        step = number * len(FORMATS) + index
        teller.begin(step, seconds)
        return failed.get(step)

    for directory, taken, _ in _walk(
        list(parent.pending), lambda directory: _claim_all(directory, reader, named, begin)
    ):
        for answer in encode_all(taken, directory):
            teller.answer(answer)
        teller.answer(None)
        claims.extend(one for one in taken if isinstance(one, Claim))
        number += 1
    if go_on is not None:
        teller.send()  # before any other step, so that no failure there is taken for one of a claim
        go_on(claims, teller)


def _claim_for_parent(memory: Memory, reader: Reader, teller: ChildReporter, tree: Directory, seconds: float) -> None:
    """Do the same in a shared child, and remember the claims for what the parent asks next."""
    _run(_Parent(tree), {}, reader, seconds, lambda claims, _: memory.update(claims=claims), teller)


def _walk(
    pending: list[Directory], ask: Callable[[Directory], Sequence[Claim | Unknown]]
) -> Iterator[tuple[Directory, Sequence[Claim | Unknown], Directory]]:
    """Go through the directories: yield each, what was found in it, and what that leaves of it."""
    while pending:
        directory = pending.pop()
        taken = ask(directory)
        rest = _without(directory, [one for one in taken if isinstance(one, Claim)])
        pending.extend(child for child in rest.directories.values() if not child.is_empty)
        yield directory, taken, rest


def _claim_all(
    directory: Directory,
    reader: Reader,
    named: Mapping[str, bool],
    begin: Callable[[int], str | None] = lambda _: None,
) -> list[Claim | Unknown]:
    """Let each format in turn claim in what those before it left; `begin` may say why one is not to be asked.

    `named` are the paths that markers and notes name, and whether as the newest.
    """
    found: list[Claim | Unknown] = []
    for index, each in enumerate(FORMATS.values()):
        why = begin(index)
        if why is None:
            taken, why = _claims_of(each, directory, reader)
            if taken:
                found.extend([marker.point_out(claim, named) for claim in taken] if named else taken)
                directory = _without(directory, taken)
        if why is not None:
            found.append(Unknown(what=directory.path or ".", reason=f"could not be searched for {each.name}: {why}"))
    return found


def _claims_of(each: Format, directory: Directory, reader: Reader) -> tuple[list[Claim], str | None]:
    try:
        return list(each.claim(directory, reader)), None
    except Exception as error:  # noqa: BLE001 - one hostile file must not hide the others
        return [], f"{type(error).__name__}: {error}"


def _without(directory: Directory, claims: Sequence[Claim]) -> Directory:
    """Return the directory less what the claims took; a subdirectory goes whole when a claim's path names it."""
    if not claims:
        return directory
    taken_files = {file.path for claim in claims for file in (*claim.files, *claim.markers)}
    return _pruned(directory, taken_files, {claim.path for claim in claims})


def _pruned(directory: Directory, taken_files: set[str], taken_directories: set[str]) -> Directory:
    start = len(directory.path) + 1 if directory.path else 0
    below: dict[str, set[str]] = {}
    for path in taken_files:
        name, slash, _ = path[start:].partition("/")
        if slash:
            below.setdefault(name, set()).add(path)
    children = {
        name: _pruned(child, below[name], set()) if name in below else child
        for name, child in directory.directories.items()
        if child.path not in taken_directories
    }
    return Directory(
        path=directory.path,
        uid=directory.uid,
        modified_ns=directory.modified_ns,
        files={name: file for name, file in directory.files.items() if file.path not in taken_files},
        directories={
            name: child for name, child in children.items() if name not in below or child.files or child.directories
        },
        links=directory.links,
        others=directory.others,
        problems=directory.problems,
    )


def encode_all(taken: Sequence[Claim | Unknown], directory: Directory) -> Iterator[Any]:
    """Encode what was found in a directory, as JSON types and in order; plain claims of one format together.

    A plain claim is of one file of the directory, and says nothing but an epoch and a step. Its file is sent as a place
    in the listing, because a directory may have 100,000 of them.
    """
    places = {file.path: place for place, file in enumerate(directory.files.values())}
    together: list[Claim] = []
    for one in taken:
        plain = one if _is_plain(one, places) else None
        is_next = plain and together and plain.format == together[0].format and len(together) < _MOST_TOGETHER
        if together and not is_next:
            yield _encode_plain(together, places)
            together = []
        if plain:
            together.append(plain)
        else:
            yield one.reason if isinstance(one, Unknown) else encode(one, directory)
    if together:
        yield _encode_plain(together, places)


def _is_plain(one: Claim | Unknown, places: Mapping[str, int]) -> TypeGuard[Claim]:
    return (
        isinstance(one, Claim)
        and one.shape is Shape.FILE
        and len(one.files) == 1
        and one.files[0].path == one.path
        and one.path in places
        and _get_said(one) == _SILENT
        and not (one.markers or one.name_metrics)
    )


def _encode_plain(claims: Sequence[Claim], places: Mapping[str, int]) -> list[Any]:
    columns = zip(*((places[one.path], one.name_epoch, one.name_step) for one in claims), strict=True)
    return [claims[0].format, *columns]


def decode_plain(data: Sequence[Any], files: Sequence[File]) -> Iterator[Claim]:
    """Decode plain claims of files that the parent listed in a directory.

    Raises:
        TypeError, ValueError, OverflowError: the data is not of `encode_all`'s form.

    """
    plain_format, places, epochs, steps = data
    if plain_format not in FORMATS or len(places) > len(files):  # each takes few bytes, and makes a large object here
        raise ValueError(f"no format, or more claims than files: {plain_format!r}")
    for place, epoch, step in zip(places, epochs, steps, strict=True):
        if type(place) is not int or not 0 <= place < len(files):
            raise ValueError(f"no place among {len(files)} files: {place!r}")
        file = files[place]
        yield Claim(
            format=plain_format,
            shape=Shape.FILE,
            path=file.path,
            files=(file,),
            name_epoch=_decode_epoch(epoch),
            name_step=None if step is None else int(step),
            name_metrics=_NO_METRICS,
        )


def _decode_epoch(epoch: Any) -> float | None:
    """Keep whole numbers ints, as JSON does."""
    return epoch if epoch is None or isinstance(epoch, int) else float(epoch)


def encode(claim: Claim, directory: Directory) -> dict[str, Any]:
    """Encode a claim in a directory as JSON types."""
    data: dict[str, Any] = {"format": claim.format, "path": claim.path}
    if claim.shape is not Shape.FILE:
        data["shape"] = claim.shape.value
        child = directory.directories.get(claim.path.rpartition("/")[2])
        is_all = child is not None and claim.path == child.path and claim.files == tuple(child.walk_files())
        data["files"] = None if is_all else [file.path for file in claim.files]
    elif claim.files[0].path != claim.path or len(claim.files) > 1:
        data["files"] = [file.path for file in claim.files]
    for name in (*_TEXTS, *_FLAGS, "name_epoch", "name_step"):
        value = getattr(claim, name)
        if value is not None:
            data[name] = value
    if claim.markers:
        data["markers"] = [file.path for file in claim.markers]
    if claim.name_metrics:
        data["name_metrics"] = dict(claim.name_metrics)
    return data


def decode(data: dict[str, Any], directory: Directory, files: Mapping[str, File]) -> Claim:
    """Decode a claim, with files of the parent's listing.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: the data is not of `encode`'s form.

    """
    shape, path = _SHAPES[data.get("shape", "file")], data["path"]
    if data["format"] not in FORMATS or not path.startswith(directory.path) or ".." in path.split("/"):
        raise ValueError(f"no claim of {directory.path!r}: {path!r}")
    if "files" not in data:
        taken: tuple[File, ...] = (files[path],)
    elif data["files"] is None:
        taken = tuple(directory.directories[path.rpartition("/")[2]].walk_files())
    else:
        taken = tuple([files[name] for name in data["files"]])
    step = data.get("name_step")
    said: dict[str, Any] = {name: _SAID[name](value) for name, value in data.items() if name in _SAID}
    return Claim(
        format=data["format"],
        shape=shape,
        path=path,
        files=taken,
        markers=tuple([files[name] for name in data.get("markers", ())]),
        name_epoch=_decode_epoch(data.get("name_epoch")),
        name_step=None if step is None else int(step),
        name_metrics={str(name): float(value) for name, value in data.get("name_metrics", {}).items()},
        **said,
    )
