"""Decides the role of a checkpoint from its content: an optimizer's state, parameters, a counter, or only arrays.

Names and the types of values decide; arrays are not read. The words are those that frameworks and users give to the
parts of a state. Words that simulations give to their fields, such as `weight`, prove nothing alone.
`docs/adding-a-format.md` says what each role means. `state_walk.py` collects the signs in a nested state.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from ckptd.core.model import Role


class RoleEvidence(NamedTuple):
    """The role of one checkpoint, what shows it, and whether users also analyse it as a result."""

    role: Role = Role.DATA
    evidence: str = ""
    is_result: bool = False

    @property
    def by_format(self) -> "RoleEvidence":
        """The same where only the format shows it, because the content could not be read."""
        return self if not self.evidence else self._replace(evidence="its format alone")


NOT_SHOWN = RoleEvidence()
RESTART_FILE = RoleEvidence(Role.STATE, "the program's own restart file")
RESTART_RESULT = RoleEvidence(Role.STATE, "the program's own restart files, which are results too", is_result=True)
TRAINING_STATE = RoleEvidence(Role.STATE, "the framework's own layout of a training state")
SNAPSHOT = RoleEvidence(Role.STATE, "a snapshot during training, named after its rounds")
OPTIMIZER_STATE = RoleEvidence(Role.STATE, "holds the state of an optimizer")
OPTIMIZER_ALONE = RoleEvidence(Role.PART, "holds the state of an optimizer and no parameters")
PARAMETERS_ONLY = RoleEvidence(Role.WEIGHTS, "parameters only")
AVERAGED_ONLY = RoleEvidence(Role.WEIGHTS, "averaged parameters only")
PROGRAM = RoleEvidence(Role.WEIGHTS, "a program with its parameters")
WHOLE_MODEL = RoleEvidence(Role.WEIGHTS, "a model and its parameters")
ONE_ARRAY = RoleEvidence(Role.DATA, "an array without any state")
ARRAYS = RoleEvidence(Role.DATA, "arrays without any state")
WORKSPACE = RoleEvidence(Role.DATA, "variables of a workspace")

# names of a counter of progress; words that also name a goal, such as `total_steps`, are not among them
COUNTERS = frozenset(
    {
        *("epoch", "current_epoch", "cur_epoch", "epochs_run", "epoch_num", "epoch_idx", "epochs_completed", "n_epoch"),
        *("last_epoch", "start_epoch", "global_epoch", "global_step", "global_steps", "step", "steps", "step_count"),
        *("iteration", "iterations", "iter", "it", "iter_num", "n_iter", "niter", "num_iterations", "global_iter"),
        *("current_iteration", "current_step", "num_updates", "trained_steps", "istep", "nstep", "timestep"),
        *("time_step", "generation", "gen"),
    }
)
COUNTER_HOLDERS = re.compile(r"trainer(?:_state)?|train(?:ing)?_?state|progress|extra_state|loops?|runner|state")
RANDOM_HINT = re.compile(r"rng|rand|rnd|seed|generator")  # the next pattern is tried only if one of these is there
RANDOM = re.compile(r"(?:\w*_)?(?:rngs?|prng|rndstate|random_states?|random_seed|manual_seed|generator_state)(?:_\w+)?")
SCHEDULER_KEYS = frozenset({"base_lrs", "_last_lr", "_step_count"})
SCALER_KEYS = frozenset({"growth_interval", "_growth_tracker"})

# these are searched in `/part/of/a/name/`, lower case, with dots as slashes
_HINT = re.compile(
    r"opt|exp_|moment|_pow_acc|square_avg|param_groups|adam|adagrad|rmsprop|ema|shadow|averaged|swa|/[mn]u/"
)  # the next patterns are tried only if one of these is there
_OPTIMIZER = re.compile(
    r"/(?:(?:\w*_)?(?:opt|optim|optimizer)_?states?(?:_dict)?(?:_\w+)?|optimizer_(?:slot|weights)|param_groups"
    r"|\w+_(?:moment[12]|beta[12]_pow_acc)_\d+|optimizer/(?:vars|_variables|iter|iterations)|exp_avg(?:_sq)?|exp_inf|max_exp_avg_sq|momentum_buffer|square_avg"
    r"|(?:weights?|bias|kernel|gamma|beta)/(?:adam(?:_\d)?|momentum|rmsprop(?:_\d)?|adagrad))/"
)
_OPTIMIZER_LIKE = re.compile(r"/(?:\w*_)?(?:opt(?:_[a-z\d])?|optims?(?:_\w+)?|optimi[sz]ers?(?:_\w+)?)/.")
_SLOT = re.compile(r"/(?:mu|nu|m|v|momentum|momentums|momenta|velocity|velocities|count)/")
_MOMENT = re.compile(r"/([mn]u)/")
_TENSORFLOW_SLOT = re.compile(r"/(?:adam|momentum|rmsprop|adagrad|adadelta|ftrl)\w*/$|/beta[12]_power(?:_\d+)?/$")
_TENSORFLOW_COUNTER = re.compile(r"/(?:save_counter|global_step|step|epoch|iterations?)/")
_MOST_VARIABLES = 100_000
_LONGEST_KEPT = 256  # characters of a name of which it is kept what it shows
_AVERAGED = re.compile(r"/(?:\w*_)?(?:ema|shadow|shadow_params|averaged|swa)(?:_\w+)?/")
_HOLDER = re.compile(
    r"/(?:\w*_)?(?:models?|module|nets?|net_?[a-z\d]|network|state_?dict|params|parameters|weights)"
    r"(?:_?(?:state|state_dict|dict|weights|params|\d+))?/."
)
_VARIABLE = re.compile(r"/vars/\d+/$")  # of a layer of Keras

# these are compared with the last part of a name
_PARAMETER = re.compile(
    r"(?:q?weight|bias)(?:_(?:ih|hh|orig|g|v)\w*)?(?::\d+)?|(?:\w+_)?kernel(?::\d+)?|running_(?:mean|var)"
    r"|moving_(?:mean|var\w*)(?::\d+)?|num_batches_tracked"
)
_PROJECTION = re.compile(r"\w+_(?:weight|bias)")  # of a part, as `attn.in_proj_weight`; a bare one may be anything
_DATA = re.compile(
    r"samples?|predictions?|preds?|logits|labels?|targets?|features?|embeddings?|embs?|vectors?|latents?|images?"
    r"|tokens?|input_ids|attention_mask|edge_(?:index|attr|weight)|outputs?|activations?|scores|data|results?|fields?"
    r"|rho|phi|psi|positions?|pos|coordinates?|coords|velocit(?:y|ies)|momentum|momenta|density|pressure"
    r"|temperature|energ(?:y|ies)|mass(?:es)?|charges?|forces?|particles?|times?"
)
_FIELD = re.compile(r"[pt-vxyz]")  # of a simulation, unless it lies in what holds parameters
_WEAK_PARAMETER = re.compile(r"w\d*|b\d*|theta|weights|biases")  # only beside an epoch, which no simulation has


class _ArrayKind(Enum):
    """What an array is by its name."""

    COUNTER = auto()
    PARAMETER = auto()
    WEAK_PARAMETER = auto()
    DATA = auto()
    OPTIMIZER = auto()
    OPTIMIZER_LIKE = auto()
    SLOT = auto()  # of what is like an optimizer
    AVERAGED = auto()
    MOMENT = auto()
    OTHER = auto()


@dataclass
class RoleSigns:
    """The signs found in a content so far, in any order; `decide` evaluates them together."""

    optimizer: bool = False
    progress: str | None = None  # the name of a counter
    model: RoleEvidence | None = None  # what an object that is a model by its class shows alone
    has_random_state: bool = False
    has_scheduler: bool = False
    has_scaler: bool = False
    has_population: bool = False
    is_aside: bool = False  # at its top there is nothing but the three above and plain numbers
    counts_progress: bool = True  # False for frameworks that leave their counters in what they export
    _arrays: int = 0  # that belong to no optimizer and no average
    _parameters: int = 0
    _weak_parameters: int = 0
    _data: int = 0
    _has_epoch: bool = False
    _averaged: int = 0
    _optimizer_like: int = 0
    _moment_arrays: int = 0
    _moments: set[str] = field(default_factory=set)

    def add_array(self, name: str) -> None:
        """Note an array; the parts of its name are divided by dots or slashes."""
        judge = _judge_array if len(name) <= _LONGEST_KEPT else _judge_array.__wrapped__
        kind, moments = judge(name)
        self._moments.update(moments)
        if kind is _ArrayKind.PARAMETER:
            self._arrays += 1
            self._parameters += 1
        elif kind is _ArrayKind.WEAK_PARAMETER:
            self._arrays += 1
            self._weak_parameters += 1
        elif kind is _ArrayKind.DATA:
            self._arrays += 1
            self._data += 1
        elif kind is _ArrayKind.OTHER:
            self._arrays += 1
        elif kind is _ArrayKind.OPTIMIZER:
            self.optimizer = True
        elif kind is _ArrayKind.OPTIMIZER_LIKE:
            self._optimizer_like += 1
        elif kind is _ArrayKind.SLOT:
            self.optimizer = True
            self._optimizer_like += 1
        elif kind is _ArrayKind.AVERAGED:
            self._averaged += 1
        elif kind is _ArrayKind.MOMENT:
            self._moment_arrays += 1

    def add_object(self, name: str) -> None:
        """Note a part that is no array."""
        self.optimizer |= bool(_OPTIMIZER.search(_path(name)))

    def add_parameter(self) -> None:
        """Note an array that is a parameter whatever its name."""
        self._arrays += 1
        self._parameters += 1

    def add_counter(self, name: str, value: float | None) -> None:
        """Note a number at the top of a state; a negative one is no counter."""
        if value is not None and value >= 0 and name.lower() in COUNTERS:
            self.progress = self.progress or name
            self._has_epoch |= "epoch" in name.lower()

    @property
    def has_parameters(self) -> bool:
        """Whether most of the arrays are parameters: one `weight` among the fields of a simulation makes no model."""
        count = self._parameters + (self._weak_parameters if self._has_epoch else 0)
        return count * 2 > self._arrays and count > self._data

    @property
    def has_optimizer(self) -> bool:
        is_trained = self.has_parameters or self.progress is not None
        return self.optimizer or (is_trained and (self._optimizer_like > 0 or len(self._moments) > 1))

    @property
    def is_whole_state(self) -> bool:
        """Whether a state of an optimizer was seen, and something that it optimizes."""
        return self.optimizer and (self._arrays > 0 or self._averaged > 0 or self.model is not None)

    def decide(self) -> RoleEvidence:
        """Return the role that these signs show together."""
        if self.has_optimizer:
            is_alone = not self._arrays and not self._averaged and self.model is None
            return OPTIMIZER_ALONE if is_alone else OPTIMIZER_STATE
        if self.model is not None or self.has_parameters:
            return self._judge_parameters()
        if self._averaged and not self._arrays:
            return AVERAGED_ONLY
        if self.has_population and self.has_random_state and self.progress is not None:
            return RoleEvidence(Role.STATE, f"holds a population, its random state and the counter {self.progress!r}")
        aside = self._name_aside()
        if aside and self.is_aside:
            return RoleEvidence(Role.PART, f"holds the state of {aside} and no parameters")
        if count := self._arrays + self._moment_arrays:
            return ONE_ARRAY if count == 1 else ARRAYS
        return NOT_SHOWN if self.progress is None else RoleEvidence(Role.DATA, "a counter without parameters")

    def _judge_parameters(self) -> RoleEvidence:
        if self.progress is not None and self.counts_progress:
            return RoleEvidence(Role.STATE, f"holds parameters and the counter {self.progress!r}")
        if self.model is not None:
            return self.model
        aside = self._name_aside()
        return RoleEvidence(Role.STATE, f"holds parameters and the state of {aside}") if aside else PARAMETERS_ONLY

    def _name_aside(self) -> str | None:
        if self.has_scheduler:
            return "a scheduler"
        if self.has_scaler:
            return "a gradient scaler"
        return "a random number generator" if self.has_random_state else None


@lru_cache(maxsize=4096)
def _judge_array(name: str) -> tuple[_ArrayKind, Sequence[str]]:
    """Return what an array is by its name, and the moments of an optimizer in it; a series has the same names."""
    if name.lower() in COUNTERS:
        return _ArrayKind.COUNTER, ()  # in the shape of an array
    path = _path(name)
    if not _HINT.search(path):
        return _judge_other(path), ()
    moments = tuple(_MOMENT.findall(path))
    if _OPTIMIZER.search(path):
        return _ArrayKind.OPTIMIZER, moments
    if _OPTIMIZER_LIKE.search(path):
        return _ArrayKind.SLOT if _SLOT.search(path) else _ArrayKind.OPTIMIZER_LIKE, moments
    if _AVERAGED.search(path):
        return _ArrayKind.AVERAGED, moments
    return _ArrayKind.MOMENT if moments else _judge_other(path), moments


def _judge_other(path: str) -> _ArrayKind:
    parent, _, last = path[1:-1].rpartition("/")
    if last in COUNTERS:
        return _ArrayKind.COUNTER  # of a parameter's own updates, as in `state/0/step`
    if _PARAMETER.fullmatch(last):
        return _ArrayKind.PARAMETER
    if _DATA.fullmatch(last):
        return _ArrayKind.DATA
    if _HOLDER.search(path) or _VARIABLE.search(path) or (parent and _PROJECTION.fullmatch(last)):
        return _ArrayKind.PARAMETER
    if _WEAK_PARAMETER.fullmatch(last):
        return _ArrayKind.WEAK_PARAMETER
    return _ArrayKind.DATA if _FIELD.fullmatch(last) else _ArrayKind.OTHER


def judge_variables(names: Iterable[str]) -> RoleEvidence:
    """Return the role of what a saver of TensorFlow wrote, by the names of its variables: it saves nothing else."""
    has_counter = False
    for count, name in enumerate(names):
        path = _path(name.partition(":")[0])
        if _OPTIMIZER.search(path) or _OPTIMIZER_LIKE.search(path) or _TENSORFLOW_SLOT.search(path):
            return OPTIMIZER_STATE
        has_counter |= bool(_TENSORFLOW_COUNTER.match(path))
        if count >= _MOST_VARIABLES:
            break
    return (
        RoleEvidence(Role.STATE, "holds variables and a counter of saves or steps") if has_counter else PARAMETERS_ONLY
    )


def _path(name: str) -> str:
    return f"/{name.lower().replace('.', '/')}/"
