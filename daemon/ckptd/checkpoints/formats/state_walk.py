"""Walks a nested state that was read from a checkpoint, and collects the signs of its role.

The walk is bounded in width, depth and count, because a hostile state may share or contain itself. It ends where the
state of an optimizer and an array of the model were found.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.encodings.msgpack_walk import Skipped
from ckptd.checkpoints.formats.encodings.pickle_values import Global, Opaque, Persistent
from ckptd.checkpoints.formats.facts import Number, plain_number
from ckptd.checkpoints.formats.roles import RoleEvidence, RoleSigns

_WIDTH = 200
_SEQUENCE_WIDTH = 8  # what is in a list is mostly of one kind
_DEPTH = 9
_COUNT = 3_000
_NAME_LENGTH = 128
_PLAIN = (str, int, float, bytes, type(None))
_CONTAINERS = (dict, list, tuple, Opaque)

# what the names and classes in a pickle say of the values that they stand for
_ARRAYS = frozenset(
    {
        *("_reconstruct", "_frombuffer", "ndarray", "NumpyArrayWrapper", "NDArrayWrapper", "_reconstruct_array"),
        *("DTensor", "ShardedTensor", "EagerTensor", "ResourceVariable"),
    }
)
_REBUILT = "_rebuild_"  # how the name of every function that makes a tensor of torch begins
_PARAMETERS = frozenset({"_rebuild_parameter", "_rebuild_parameter_with_state"})
_OPTIMIZERS = ("torch.optim.", "optax.", "keras.optimizers", "keras.src.optimizers", "bitsandbytes.optim", "apex.optim")
_MODELS = ("sklearn.", "xgboost.", "lightgbm.", "catboost.", "gensim.models.", "statsmodels.")
_NO_MODELS = ("sklearn.utils.", "sklearn.datasets.")
_MODULE_ATTRIBUTES = frozenset({"_parameters", "_modules"})
_GENERATOR_BYTES = frozenset({5048, 5056})  # what torch's generator for the CPU takes, by its versions
_GENERATOR_NAMES = frozenset({"python", "numpy", "cpu", "cuda", "xpu", "npu", "mps", "torch"})
_ASIDE_KEYS = roles.SCHEDULER_KEYS | roles.SCALER_KEYS


def find_role(state: Any, number: Number = plain_number) -> RoleEvidence:
    """Return the role that a state shows; `number` turns a value into a number as in `facts.find_facts`."""
    signs = RoleSigns()
    if _is_plain(state):
        _add_counters(signs, state, number)
    else:
        add_role_signs(signs, state, number)
    return signs.decide()


def _is_plain(state: Any) -> bool:
    """Return whether a state is a dictionary of numbers and texts, as in many small files."""
    if not isinstance(state, dict) or len(state) > _WIDTH or not _ASIDE_KEYS.isdisjoint(state):
        return False
    return all(isinstance(value, _PLAIN) for value in state.values())


def add_role_signs(signs: RoleSigns, state: Any, number: Number = plain_number) -> None:
    """Add what a state shows of its role."""
    if _is_array(state):
        _add_array(signs, "", state)
    elif isinstance(state, _CONTAINERS) and not _is_known_whole(signs, state):
        _add_top(signs, state, number)
        _walk(signs, state)


def _walk(signs: RoleSigns, state: Any) -> None:
    """Go through a state, breadth first."""
    level: list[tuple[str, Any]] = [("", state)]
    seen: set[int] = set()
    left = _COUNT
    for _ in range(_DEPTH):
        deeper: list[tuple[str, Any]] = []
        for prefix, holder in level:
            if id(holder) in seen:
                continue
            seen.add(id(holder))
            for key, value in _entries(holder):
                _add(signs, f"{prefix}{key}", value, deeper)
                left -= 1
                if signs.is_whole_state or left <= 0:
                    return
        level = deeper


def _add(signs: RoleSigns, name: str, value: Any, deeper: list[tuple[str, Any]]) -> None:
    if isinstance(value, _PLAIN):
        return
    if _is_array(value):
        _add_array(signs, name, value)
    elif _is_random_state(name):
        signs.has_random_state = True
    elif isinstance(value, _CONTAINERS) and not _is_known_whole(signs, value):
        deeper.append((f"{name}/", value))


def _add_array(signs: RoleSigns, name: str, value: Any) -> None:
    if _is_generator(value) or _is_random_state(name):
        signs.has_random_state = True
    elif isinstance(value, Opaque) and value.name in _PARAMETERS:
        signs.add_parameter()
    else:
        signs.add_array(name)


def _is_array(value: Any) -> bool:
    if isinstance(value, Opaque):
        return (value.name.startswith(_REBUILT) or value.name in _ARRAYS) and _objects(value) is None
    return isinstance(value, (Skipped, Persistent))


def _objects(value: Opaque) -> list[Any] | None:
    """Return what an array of objects holds, as numpy pickles it; None for any other value."""
    state = value.state
    is_of_objects = isinstance(state, tuple) and len(state) == 5 and isinstance(state[4], list)
    return state[4] if is_of_objects else None


def _is_random_state(name: str) -> bool:
    last = name.rpartition("/")[2].lower()
    return bool(roles.RANDOM_HINT.search(last) and roles.RANDOM.fullmatch(last))


def _is_generator(value: Any) -> bool:
    """Return whether a value is the state of torch's random number generator: bytes of an unusual count."""
    args = value.args if isinstance(value, Opaque) else None
    pid = args[0].pid if isinstance(args, tuple) and args and isinstance(args[0], Persistent) else None
    if not isinstance(pid, tuple) or len(pid) < 5 or not isinstance(pid[1], Global):
        return False
    return pid[1].name == "ByteStorage" and isinstance(pid[4], int) and pid[4] in _GENERATOR_BYTES


def _is_known_whole(signs: RoleSigns, value: Any) -> bool:
    """Add the signs in the class or keys of a container; return whether these describe all of it."""
    if isinstance(value, Opaque):
        if value.module.startswith(_OPTIMIZERS):
            signs.optimizer = True
            return True
        if value.module.startswith(_MODELS) and not value.module.startswith(_NO_MODELS):
            signs.model = roles.WHOLE_MODEL
            return True
    if isinstance(value, (list, tuple)):
        return False
    keys = dict(_entries(value))
    if keys.keys() >= _MODULE_ATTRIBUTES:
        signs.model = roles.WHOLE_MODEL
        return True
    is_optimizer = _are_groups(keys.get("param_groups"))
    signs.optimizer |= is_optimizer
    signs.has_scheduler |= not roles.SCHEDULER_KEYS.isdisjoint(keys)
    signs.has_scaler |= not roles.SCALER_KEYS.isdisjoint(keys)
    return is_optimizer


def _are_groups(value: Any) -> bool:
    """Return whether a value is the parameter groups of a torch optimizer, and not settings of the same name."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "params" in value[0]


def _add_top(signs: RoleSigns, state: Any, number: Number) -> None:
    """Add the signs at the top of a state: its counters, and whether it is only a scheduler's or generator's."""
    top = dict(_entries(state))
    for name, value in top.items():
        if name == "num_updates" and "shadow_params" in top:
            continue  # an average counts its own updates
        if name.lower() in roles.COUNTERS:
            signs.add_counter(name, number(value))
        elif isinstance(value, (dict, Opaque)) and roles.COUNTER_HOLDERS.fullmatch(name.lower()):
            _add_counters(signs, value, number)
    signs.has_population |= "population" in top
    signs.is_aside = signs.has_scheduler or signs.has_scaler or _is_aside(top)


def _add_counters(signs: RoleSigns, holder: Any, number: Number) -> None:
    for name, value in _entries(holder):
        if name.lower() in roles.COUNTERS:
            signs.add_counter(name, number(value))


def _is_aside(top: Mapping[str, Any]) -> bool:
    """Return whether there are only plain numbers and values that belong beside a model."""
    has_generator, has_others = False, False
    for name, value in top.items():
        if _is_generator(value):
            has_generator = True
        elif not (isinstance(value, _PLAIN) or _is_random_state(name) or _is_by_keys(value)):
            has_others = True
            if name.lower() not in _GENERATOR_NAMES:
                return False
    return has_generator or not has_others


def _is_by_keys(value: Any) -> bool:
    return isinstance(value, (dict, Opaque)) and not _ASIDE_KEYS.isdisjoint(dict(_entries(value)))


def _entries(holder: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, dict):
        yield from _named(holder)
    elif isinstance(holder, (list, tuple)):
        yield from _numbered(holder)
    elif isinstance(holder, Opaque):
        yield from _named(holder.attributes)
        yield from _named(holder.entries or {})
        for part in (holder.args, holder.items, _objects(holder)):
            if isinstance(part, (list, tuple)):
                yield from _numbered(part)


def _numbered(values: "list[Any] | tuple[Any, ...]") -> Iterator[tuple[str, Any]]:
    return ((str(number), value) for number, value in enumerate(islice(values, _SEQUENCE_WIDTH)))


def _named(mapping: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in islice(mapping.items(), _WIDTH):
        yield (key[:_NAME_LENGTH] if isinstance(key, str) else "#"), value
