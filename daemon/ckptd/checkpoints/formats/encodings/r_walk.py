"""Walks R's serialisation without building what it describes, and notes scalars with telling names.

The layout: "Serialization Formats" in the manual "R Internals", and src/main/serialize.c of R. Items follow each
other with no sizes of their own, so that only a walk to the last one tells that a file is whole. The walk keeps its
own stack: nesting costs memory in proportion to the file, never recursion.
"""

from dataclasses import dataclass, field
from typing import Protocol

from ckptd.checkpoints.formats.encodings.cursor import Cursor, Source
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.checkpoints.formats.scalars import Scalars
from ckptd.errors import CkptdError

_SYMBOL, _PAIRS, _CLOSURE, _ENVIRONMENT, _PROMISE, _CALL = 1, 2, 3, 4, 5, 6
_SPECIAL, _BUILTIN, _CHARACTERS, _LOGICALS, _INTEGERS, _DOUBLES, _COMPLEXES = 7, 8, 9, 10, 13, 14, 15
_STRINGS, _DOTS, _LIST, _EXPRESSIONS, _BYTECODE, _POINTER, _WEAK, _RAW, _OBJECT = 16, 17, 19, 20, 21, 22, 23, 24, 25
_ALTERNATIVE, _ATTRIBUTED_PAIRS, _ATTRIBUTED_CALL, _CODE_REFERENCE, _CODE_DEFINITION = 238, 239, 240, 243, 244
_PERSISTENT, _PACKAGE, _NAMESPACE, _REFERENCE = 247, 248, 249, 255
_CONSTANTS = frozenset([241, 242, 250, 251, 252, 253, 254])  # the empty environment, NULL and their like
_WIDTHS = {_LOGICALS: 4, _INTEGERS: 4, _DOUBLES: 8, _COMPLEXES: 16, _RAW: 1}
_PAIR_LIKE = frozenset([_PAIRS, _CLOSURE, _PROMISE, _CALL, _DOTS])
_CODE_PAIRS = frozenset([_PAIRS, _CALL, _ATTRIBUTED_PAIRS, _ATTRIBUTED_CALL, _CODE_DEFINITION])
_HAS_ATTRIBUTES, _HAS_TAG = 0x200, 0x400
_NOT_A_NUMBER = -(2**31)
_LONGEST_NAME = 1 << 16
_LARGEST_FRAME = 100_000  # lists with more elements than this are no workspace


class WalkedFarEnoughError(CkptdError):
    """The walk has passed as many items as it may at this level."""


class Values(Protocol):
    """How one of R's encodings writes numbers and texts."""

    def integer(self) -> int: ...

    def numbers(self, kind: int, count: int) -> float | None:
        """Pass over a vector; return its value where it has one, finite and real."""

    def text(self, length: int) -> bytes: ...

    def is_at_end(self) -> bool: ...


class BinaryValues:
    """The XDR encoding, and the native one, which is the same in the machine's byte order."""

    def __init__(self, source: Source, order: str, start: int) -> None:
        self._cursor = Cursor(source, order=order, start=start)
        self.integer = self._cursor.integer
        self.is_at_end = self._cursor.is_at_end

    def reverse(self) -> None:
        """Take the other byte order from here on."""
        self._cursor.order = "<" if self._cursor.order == ">" else ">"

    def numbers(self, kind: int, count: int) -> float | None:
        if count == 1 and kind == _DOUBLES:
            return self._cursor.double()
        if count == 1 and kind == _INTEGERS:
            return float(self._cursor.integer())
        self._cursor.skip(count * _WIDTHS[kind])
        return None

    def text(self, length: int) -> bytes:
        if length > _LONGEST_NAME:
            self._cursor.skip(length)
            return b""
        return self._cursor.take(length)


class AsciiValues:
    """The ASCII encoding: one number or escaped text a line."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines: list[bytes] = []
        self._rest = b""

    def integer(self) -> int:
        token = self._token()
        try:
            return _NOT_A_NUMBER if token == b"NA" else int(token)
        except ValueError as error:
            raise DamagedError(f"{token[:20]!r} stands where a whole number should") from error

    def numbers(self, kind: int, count: int) -> float | None:
        value = None
        for _ in range(count * 2 if kind == _COMPLEXES else count):
            token = self._token()
            try:
                value = float("nan") if token == b"NA" else float(int(token, 16) if kind == _RAW else float(token))
            except ValueError as error:
                raise DamagedError(f"{token[:20]!r} stands where a number should") from error
        return value if count == 1 else None

    def text(self, length: int) -> bytes:
        return self._token() if length else b""

    def is_at_end(self) -> bool:
        return not self._lines and not self._fill()

    def _token(self) -> bytes:
        while True:
            if not self._lines and not self._fill():
                raise DamagedError("the text ends in the middle of a value")
            token = self._lines.pop().strip()
            if token:
                return token

    def _fill(self) -> bool:
        data = self._source.read(1 << 16)
        if not data:
            if self._rest:
                raise DamagedError("the text ends in the middle of a line")
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines = lines[::-1]
        return bool(lines) or self._fill_on()

    def _fill_on(self) -> bool:
        if len(self._rest) > 1 << 26:
            raise DamagedError("a line of the text is longer than any value")
        return self._fill()


@dataclass(slots=True)
class _Frame:
    """A list whose elements may have telling names; R writes the names after the elements."""

    depth: int
    scalars: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Task:
    """Something still to be read: `do` says what, the other fields where it belongs."""

    do: str
    kind: int = 0
    count: int = 0
    depth: int = 0
    name: bytes | None = None  # of the value to come
    frame: _Frame | None = None  # the list that it is an element of, or whose names it holds


class Walk:
    """One walk. `scalars` are the variables and list elements of one number."""

    def __init__(self, values: Values, *, most_items: int) -> None:
        self._values = values
        self._items_left = most_items
        self._symbols: list[bytes] = []
        self._stack: list[_Task] = []
        self.scalars = Scalars()

    def run(self) -> None:
        """Read one object to its end.

        Raises:
            DamagedError: what is there is no serialised object, or only its beginning.
            WalkedFarEnoughError: it has more items than this walk may read.

        """
        self._stack.append(_Task("item"))
        while self._stack:
            self._items_left -= 1
            if self._items_left < 0:
                raise WalkedFarEnoughError("it has more parts than this level reads")
            task = self._stack.pop()
            if task.do == "item":
                self._item(task)
            elif task.do == "items":
                self._items(task)
            elif task.do == "pair":
                self._pair(task.kind, task)
            elif task.do == "code":
                self._code()
            elif task.do == "constants":
                self._constants(task)
            else:
                self._code_pair(task)

    def _push(self, *tasks: _Task) -> None:
        self._stack.extend(reversed(tasks))

    def _item(self, task: _Task) -> None:
        flags = self._values.integer()
        kind = flags & 0xFF
        attributes = [_Task("item", depth=task.depth + 1)] if flags & _HAS_ATTRIBUTES else []
        if kind in _CONSTANTS:
            return
        if kind == _REFERENCE:
            self._reference(flags)
        elif kind == _SYMBOL:
            self._symbols.append(self._characters())
        elif kind in {_PERSISTENT, _PACKAGE, _NAMESPACE}:
            self._values.integer()
            self._symbols.append(b"")
            self._push(_Task("items", count=self._length(), depth=task.depth + 1))
        elif kind in _PAIR_LIKE:
            self._push(*attributes, _Task("pair", kind=flags, depth=task.depth, name=task.name, frame=task.frame))
        elif kind in {_LIST, _EXPRESSIONS}:
            self._list(task, has_attributes=bool(attributes))
        elif kind == _STRINGS:
            self._strings(task)
            self._push(*attributes)
        elif kind in _WIDTHS:
            self._note(task, self._values.numbers(kind, self._length()))
            self._push(*attributes)
        else:
            self._rare(kind, task.depth, attributes)

    def _rare(self, kind: int, depth: int, attributes: list[_Task]) -> None:
        inner = _Task("item", depth=depth + 1)
        if kind == _CHARACTERS:
            self._values.text(max(0, self._values.integer()))
            self._push(*attributes)
        elif kind in {_SPECIAL, _BUILTIN}:
            self._values.text(self._length())
        elif kind == _ENVIRONMENT:
            self._values.integer()
            self._symbols.append(b"")
            self._push(inner, inner, inner, inner)  # enclosure, frame, hash table, attributes
        elif kind == _POINTER:
            self._symbols.append(b"")
            self._push(inner, inner, *attributes)
        elif kind == _WEAK:
            self._symbols.append(b"")
            self._push(*attributes)
        elif kind == _BYTECODE:
            self._values.integer()  # how many places are referred to
            self._push(_Task("code"), *attributes)
        elif kind == _ALTERNATIVE:
            self._push(inner, inner, inner)  # class, state, attributes
        elif kind == _OBJECT:
            self._push(*attributes)
        else:
            raise DamagedError(f"an item of type {kind} does not exist")

    def _items(self, task: _Task) -> None:
        if task.count <= 0:
            return
        task.count -= 1
        self._push(_Task("item", depth=task.depth, name=task.name, frame=task.frame, count=task.kind), task)
        task.kind += 1

    def _list(self, task: _Task, *, has_attributes: bool) -> None:
        count = self._length()
        frame = _Frame(task.depth) if count <= _LARGEST_FRAME else None
        after = [_Task("item", depth=task.depth + 1, name=b"", frame=frame)] if has_attributes else []
        self._push(_Task("items", count=count, depth=task.depth + 1, frame=frame), *after)

    def _pair(self, flags: int, task: _Task) -> None:
        """Read the tag here, since it names the value that follows; leave value and rest on the stack."""
        tag = self._tag() if flags & _HAS_TAG else b""
        holds_names = task.frame is not None and task.name == b""
        frame = task.frame if holds_names and tag == b"names" else None
        self._push(
            _Task("item", depth=task.depth + 1, name=tag, frame=frame),
            _Task("item", depth=task.depth, name=task.name, frame=task.frame),
        )

    def _tag(self) -> bytes:
        flags = self._values.integer()
        if flags & 0xFF == _SYMBOL:
            self._symbols.append(self._characters())
            return self._symbols[-1]
        if flags & 0xFF == _REFERENCE:
            return self._reference(flags)
        if flags & 0xFF in _CONSTANTS:
            return b""
        raise DamagedError(f"an item of type {flags & 0xFF} stands where a name should")

    def _characters(self) -> bytes:
        flags = self._values.integer()
        if flags & 0xFF != _CHARACTERS:
            raise DamagedError(f"an item of type {flags & 0xFF} stands where a text should")
        return self._values.text(max(0, self._values.integer()))

    def _strings(self, task: _Task) -> None:
        count = self._length()
        frame = task.frame if task.name == b"names" else None
        for index in range(count):
            self._items_left -= 1
            if self._items_left < 0:
                raise WalkedFarEnoughError("it has more parts than this level reads")
            text = self._characters()
            if frame is not None and index in frame.scalars:
                self.scalars.add(text.decode("latin-1"), frame.scalars[index], frame.depth + 1)

    def _reference(self, flags: int) -> bytes:
        number = flags >> 8 or self._values.integer()
        if not 0 < number <= len(self._symbols):
            raise DamagedError(f"reference {number} points at nothing")
        return self._symbols[number - 1]

    def _length(self) -> int:
        length = self._values.integer()
        if length == -1:
            high, low = self._values.integer(), self._values.integer()
            length = (high << 32) + (low & 0xFFFFFFFF)
        if not 0 <= length < 1 << 48:
            raise DamagedError(f"a length of {length} cannot be")
        return length

    def _note(self, task: _Task, value: float | None) -> None:
        if value is None:
            return
        if task.frame is not None and task.name is None:
            task.frame.scalars[task.count] = value
        elif task.name:
            self.scalars.add(task.name.decode("latin-1"), value, task.depth)

    def _code(self) -> None:
        self._push(_Task("item"), _Task("constants", count=-1))

    def _constants(self, task: _Task) -> None:
        count = self._length() if task.count < 0 else task.count
        if not count:
            return
        kind = self._values.integer()
        rest = _Task("constants", count=count - 1)
        if kind == _BYTECODE:
            self._push(_Task("code"), rest)
        elif kind in _CODE_PAIRS or kind == _CODE_REFERENCE:
            self._push(_Task("code-pair", kind=kind), rest)
        else:
            self._push(_Task("item"), rest)

    def _code_pair(self, task: _Task) -> None:
        kind = self._values.integer() if task.kind < 0 else task.kind
        if kind == _CODE_REFERENCE:
            self._values.integer()
        elif kind in _CODE_PAIRS:
            if kind == _CODE_DEFINITION:
                self._values.integer()
                kind = self._values.integer()
            has_attributes = kind in {_ATTRIBUTED_PAIRS, _ATTRIBUTED_CALL}
            inner = _Task("code-pair", kind=-1)
            self._push(*([_Task("item")] if has_attributes else []), _Task("item"), inner, _Task("code-pair", kind=-1))
        else:
            self._push(_Task("item"))


def open_values(source: Source, mark: bytes, start: int) -> Values:
    """Choose the encoding by its mark, which ends at `start`; read the versions and the name of the character set.

    Raises:
        DamagedError: no serialisation begins there.

    """
    values: Values
    if mark in {b"X\n", b"B\n"}:
        values = binary = BinaryValues(source, ">" if mark == b"X\n" else "<", start)
        version = values.integer()
        if version in {2 << 24, 3 << 24}:
            binary.reverse()
            version >>= 24
    elif mark == b"A\n":
        values = AsciiValues(source)
        version = values.integer()
    else:
        raise DamagedError("no serialised R object begins where one should")
    if version not in {2, 3}:
        raise DamagedError(f"version {version} of R's serialisation does not exist")
    values.integer()  # the R that wrote it
    values.integer()  # the oldest R that reads it
    if version == 3:
        values.text(values.integer())
    return values
