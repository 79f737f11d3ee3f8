"""What the pickle reader may build beside plain containers, numbers and strings: placeholders that do nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from struct import unpack
from typing import Any

Spend = Callable[[int], None]  # charges the reader's budget, and raises once it is used up


@dataclass(eq=False, slots=True)
class Global:
    """A name that unpickling would import; here nothing is imported."""

    module: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Opaque:
    """The object that unpickling would build by calling `module.name(*args)`, with the state that it would set."""

    module: str
    name: str
    args: Any = ()
    state: Any = None
    items: list[Any] | None = None
    entries: dict[Any, Any] | None = None

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def attributes(self) -> dict[Any, Any]:
        """The instance dictionary that unpickling would give it."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:
            state = state[0] if isinstance(state[0], dict) else state[1]
        return state if isinstance(state, dict) else {}


@dataclass(eq=False, slots=True)
class Persistent:
    """A persistent id: what lies outside the pickle, such as a tensor's storage."""

    pid: Any


@dataclass(eq=False, slots=True)
class Elided:
    """A long string of bytes that was stepped over. `at` is where it begins in the stream."""

    size_bytes: int
    at: int = 0


def key_of(value: Any) -> Any:
    """Return what stands for a dictionary key: hashing a deep tuple would overflow the stack."""
    if value is None or isinstance(value, (str, bytes, int, float, Global, Opaque, Persistent, Elided)):
        return value
    if isinstance(value, tuple) and all(isinstance(part, (str, bytes, int, float)) for part in value):
        return value
    return Opaque("", type(value).__name__)


def construct(called: Global, args: Any, spend: Spend) -> Any:
    """Return the plain value that a well-known constructor would build, else a placeholder."""
    plain = CONSTRUCTORS.get((called.module, called.name))
    if plain is not None and isinstance(args, tuple):
        try:
            return plain(args, spend)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError):
            pass
    return Opaque(called.module, called.name, args)


def _dictionary(args: tuple[Any, ...], spend: Spend) -> Any:
    if not args:
        return {}
    if isinstance(args[0], dict):
        return args[0]
    spend(len(args[0]))
    return {key_of(key): value for key, value in args[0]}


def _sequence(args: tuple[Any, ...], spend: Spend) -> Any:
    if not args:
        return []
    if isinstance(args[0], list):
        return args[0]
    spend(len(args[0]))
    return list(args[0])


def _encode(args: tuple[Any, ...], spend: Spend) -> bytes:
    spend(len(args[0]))
    return str.encode(args[0], "latin-1")


def _bytes(args: tuple[Any, ...], spend: Spend) -> bytes:
    if args and not isinstance(args[0], bytes):
        return _encode(args, spend)
    return args[0] if args else b""


def _number(args: tuple[Any, ...], spend: Spend) -> Any:  # noqa: ARG001
    """Decode a numpy scalar: a dtype and its bytes."""
    dtype, data = args
    code = dtype.args[0]
    order = dtype.state[1] if isinstance(dtype.state, tuple) else "<"
    if isinstance(data, str):
        data = data.encode("latin-1")
    letter = {"b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"} | {
        "f2": "e",
        "f4": "f",
        "f8": "d",
    }
    return unpack((">" if order == ">" else "<") + letter[code], data)[0]


def _tuple(args: tuple[Any, ...], spend: Spend) -> Any:
    if args and isinstance(args[0], list):
        spend(len(args[0]))
        return tuple(args[0])
    return args[0] if args and isinstance(args[0], tuple) else ()


def _second_dictionary(args: tuple[Any, ...], spend: Spend) -> Any:
    return _dictionary(args[1:], spend)


CONSTRUCTORS: dict[tuple[str, str], Callable[[tuple[Any, ...], Spend], Any]] = {
    ("collections", "OrderedDict"): _dictionary,
    ("collections", "Counter"): _dictionary,
    ("collections", "defaultdict"): _second_dictionary,
    ("collections", "deque"): _sequence,
    ("_codecs", "encode"): _encode,
    ("torch", "Size"): _tuple,
    **{
        (module, name): build
        for module in ("builtins", "__builtin__")
        for name, build in {
            "dict": _dictionary,
            "list": _sequence,
            "set": _sequence,
            "frozenset": _sequence,
            "bytearray": _bytes,
            "bytes": _bytes,
        }.items()
    },
    ("numpy.core.multiarray", "scalar"): _number,
    ("numpy._core.multiarray", "scalar"): _number,
}
