"""The stack machine of pickles, which creates placeholders instead of importing and calling."""

import codecs
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ckptd.checkpoints.formats.encodings.byte_source import ByteSource
from ckptd.checkpoints.formats.encodings.pickle_names import CLASS_MAKERS, LOOKUPS, NESTED_LOADER, is_harmless
from ckptd.checkpoints.formats.encodings.pickle_values import Elided, Global, Opaque, Persistent, construct, key_of
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError

_LINE_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class PickleLimits:
    """What reading one pickle may cost. Strings of bytes above `elide_bytes` are stepped over, not held."""

    cost: int = 20_000_000  # opcodes, and elements or bytes copied by constructors
    held_bytes: int = 256 << 20
    elide_bytes: int = 1 << 16


class PickleMachine:
    def __init__(self, source: ByteSource, limits: PickleLimits, handlers: "Handlers") -> None:
        self._handlers = handlers
        self.source = source
        self._limits = limits
        self._cost_left = limits.cost
        self._held_left = limits.held_bytes
        self.stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.globals: set[str] = set()
        self.unsafe: set[str] = set()
        self.persistent_ids: list[Any] = []
        self.nested: list[Any] = []  # what NESTED_LOADER would be given
        self._lookups: Counter[str] = Counter()  # names of LOOKUPS that were pushed and not called to name an attribute
        self.protocol = 0

    @property
    def position(self) -> int:
        return self.source.position

    def run(self) -> Any:
        """Follow the opcodes to STOP and return what they built."""
        take, spend, handlers, stop = self.source.take, self.spend, self._handlers, b"."
        while (code := take(1)) != stop:
            spend(1)
            handler = handlers.get(code)
            if handler is None:
                raise DamagedError(f"not a pickle: no opcode {code!r} at byte {self.position - 1}")
            handler(self)
        self.unsafe.update(name for name, count in self._lookups.items() if count)
        return self.stack.pop()

    def run_nested(self) -> None:
        """Follow a pickle of its own that stands in this one's stream; what it builds is dropped."""
        stack, marks = self.stack, self._marks
        memo = self.memo
        self.stack, self._marks, self.memo = [], [], {}
        self.run()
        self.stack, self._marks, self.memo = stack, marks, memo

    def spend(self, cost: int) -> None:
        self._cost_left -= cost
        if self._cost_left < 0:
            raise TooLargeError("its pickle needs more steps than its reader may take")

    # strings and numbers

    def _hold(self, count: int) -> bytes:
        self._held_left -= count
        if self._held_left < 0:
            self.source.require(count)
            raise TooLargeError("its pickle holds more text than its reader may keep")
        return self.source.take(count)

    def length(self, width: int) -> int:
        return int.from_bytes(self.source.take(width), "little")

    def byte_string(self, width: int) -> None:
        count = self.length(width)
        if count > self._limits.elide_bytes:
            self.stack.append(Elided(count, self.position))
            self.source.skip(count)
        else:
            self.stack.append(self._hold(count))

    def text(self, width: int) -> None:
        count = self.length(width)
        if count > self._limits.elide_bytes:
            self.stack.append(Elided(count, self.position))
            self.source.skip(count)
        else:
            self.stack.append(self._hold(count).decode("utf-8", "surrogatepass"))

    def old_string(self, width: int) -> None:
        """Read Python 2's str: text or bytes, nobody knows; latin-1 loses nothing."""
        self.byte_string(width)
        if isinstance(self.stack[-1], bytes):
            self.stack[-1] = self.stack[-1].decode("latin-1")

    def line(self) -> str:
        return self.source.take_line(_LINE_LIMIT).decode("latin-1")

    def text_line(self) -> None:
        line = self.source.take_line(self._held_left)
        self._held_left -= len(line)
        self.stack.append(line.decode("raw-unicode-escape"))

    def string_line(self) -> None:
        line = self.source.take_line(self._held_left).strip()
        self._held_left -= len(line)
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in {b'"', b"'"}:
            raise DamagedError(f"not a pickle: a string without quotes at byte {self.position}")
        self.stack.append(codecs.escape_decode(line[1:-1])[0].decode("latin-1"))

    def int_line(self) -> None:
        line = self.line()
        self.stack.append({"00": False, "01": True}[line] if line in {"00", "01"} else int(line, 0))

    def long_line(self) -> None:
        self.stack.append(int(self.line().removesuffix("L"), 0))

    def long(self, width: int) -> None:
        self.stack.append(int.from_bytes(self._hold(self.length(width)), "little", signed=True))

    # containers

    def pop_mark(self) -> list[Any]:
        if not self._marks:
            raise DamagedError(f"not a pickle: no mark at byte {self.position}")
        items = self.stack
        self.stack = self._marks.pop()
        return items

    def drop_mark(self) -> None:
        self.pop_mark()

    def mark(self) -> None:
        self._marks.append(self.stack)
        self.stack = []

    def tuple(self, count: int) -> None:
        if len(self.stack) < count:
            raise DamagedError(f"not a pickle: too few values for a tuple at byte {self.position}")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def dictionary(self) -> None:
        items = self.pop_mark()
        self.stack.append(dict(zip(map(key_of, items[::2]), items[1::2], strict=True)))

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif isinstance(target, Opaque):
            if target.items is None:
                target.items = []
            target.items.extend(items)

    def append(self) -> None:
        value = self.stack.pop()
        self.extend([value])

    def set(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Opaque):
            if target.entries is None:
                target.entries = {}
            target = target.entries
        pairs = zip(items[::2], items[1::2], strict=True)
        if isinstance(target, dict):
            for key, value in pairs:
                target[key_of(key)] = value

    def set_one(self) -> None:
        value = self.stack.pop()
        key = self.stack.pop()
        self.set([key, value])

    # memo

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise DamagedError(f"not a pickle: memo {index} was never set, at byte {self.position}")
        self.push(self.memo[index])

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    # names and calls

    def _name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise DamagedError(f"not a pickle: a name that is no text at byte {self.position}")
        self.push(self._import(module, name))

    def _import(self, module: str, name: str) -> Global:
        found = Global(module, name)
        self.globals.add(found.full_name)
        if found.full_name not in LOOKUPS and not is_harmless(module, name):
            self.unsafe.add(found.full_name)
        return found

    def name_lines(self) -> None:
        module = self.line()
        self._name(module, self.line())

    def name_stack(self) -> None:
        name = self.stack.pop()
        self._name(self.stack.pop(), name)

    def extension(self, width: int) -> None:
        self._name("copyreg.extension", str(self.length(width)))

    def _call(self, called: Any, args: Any) -> Any:
        """Replace a call by a placeholder. Calling the unknown result of an earlier call is never harmless."""
        if isinstance(called, Global):
            if called.full_name == NESTED_LOADER and isinstance(args, tuple) and args:
                self.nested.append(args[0])
            if called.full_name in LOOKUPS and isinstance(args, tuple):
                match args:
                    case (Global(module=module, name=name), str(attribute)):
                        self._lookups[called.full_name] -= 1
                        return self._import(module, f"{name}.{attribute}")
            return construct(called, args, self.spend)
        name = called.full_name if isinstance(called, Opaque) else type(called).__name__
        if name not in CLASS_MAKERS:
            self.unsafe.add(f"what {name} returns")
        return Opaque("", name, args)

    def reduce(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self._call(self.stack[-1], args)

    def instance(self) -> None:
        module = self.line()
        self._name(module, self.line())
        called = self.stack.pop()
        args = tuple(self.pop_mark())
        self.stack.append(self._call(called, args))

    def object(self) -> None:
        called, *args = self.pop_mark()
        self.stack.append(self._call(called, tuple(args)))

    def new_object_keywords(self) -> None:
        self.stack.pop()
        self.reduce()

    def build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Opaque):
            self.stack[-1].state = state

    def persistent(self, pid: Any) -> None:
        self.persistent_ids.append(pid)
        self.stack.append(Persistent(pid))

    # the stream itself

    def read_protocol(self) -> None:
        self.protocol = self.source.take(1)[0]
        if self.protocol > 5:
            raise DamagedError(f"not a pickle: protocol {self.protocol}")

    def check_frame(self) -> None:
        self.source.require(self.length(8))

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def push(self, value: Any) -> None:
        self.stack.append(value)
        if isinstance(value, Global) and value.full_name in LOOKUPS:
            self._lookups[value.full_name] += 1


Handlers = Mapping[bytes, Callable[[PickleMachine], None]]
