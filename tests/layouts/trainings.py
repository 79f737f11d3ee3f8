"""How trainings of one's own name their files: number words x joiners x padding x nesting x members x components."""

from dataclasses import dataclass
from datetime import UTC, datetime

from ckptd.core.model import Role
from layouts import contents

BEGAN_AT = datetime(2026, 11, 1, tzinfo=UTC).timestamp()

# word, whether it says progress, whether it counts epochs
WORDS = {
    "epoch": (True, True),
    "step": (True, False),
    "iter": (True, False),
    "ep": (True, True),
    "e": (False, True),  # experiments, subjects and seeds as often
    "global_step": (True, False),
    "it": (False, False),
    "s": (False, False),
    "ba": (True, False),
    "checkpoint": (False, False),
    "ckpt": (False, True),
    "model": (False, True),
    "": (False, False),
}
FORMS = ("before", "before", "before", "behind", "both", "date", "pair")
MEMBER_WORDS = ("rank", "shard", "part", "of", "world", "mp", "tp", "node", "bare")
NESTINGS = (
    "flat",
    "flat",
    "directory",
    "directory",
    "epoch directory",
    "ranks above",
    "ranks below",
    "component below",
)
COMPONENTS = {
    "one": ("one",),
    "model, optim": ("model", "optim"),
    "model, optim, ema, rng": ("model", "optim", "ema", "rng"),
    "actor, critic": ("actor", "critic"),
    "netG, netD": ("netG", "netD"),
}


@dataclass(frozen=True)
class Moment:
    """How far a training is when it saves."""

    epoch: int
    step: int
    at: float  # seconds since it began


@dataclass(frozen=True)
class Scheme:
    """One way to name and lay out the files of a save."""

    form: str
    word: str
    joiner: str
    padding: int
    nesting: str
    member_word: str
    is_member_first: bool
    components: tuple[str, ...]
    base: str
    prefix: str
    metric: str
    family: str  # of formats, with its suffix
    content: str  # what the content holds
    told: str  # what progress it tells

    @property
    def has_word(self):
        is_beside = self.form in {"before", "behind"} and WORDS[self.word][0]
        return self.form == "both" or self.nesting == "epoch directory" or is_beside

    @property
    def role(self):
        return Role.STATE if self.content == "state" else Role.WEIGHTS

    def is_proven(self, *, members, are_times_rising):
        """Whether content, or words with times that do not contradict them, show role, members and progress."""
        is_above = self.nesting == "ranks above" and members > 1
        if self.role is not Role.STATE or (is_above and (self.member_word == "bare" or not are_times_rising)):
            return False
        if self.family == "numpy" and not self.base:
            return False  # most arrays are data: only words for states tell these
        if self.form == "date" and self.nesting not in {"flat", "epoch directory"}:
            return False  # a directory with a date may be a run of its own
        can_tell = any(self._kind(component) == "state" for component in self.components)
        told = {"all", "step"} if self.family == "keras" else {"all", "epoch", "step"}
        tells_content = can_tell and self.told in told
        tells_members = members == 1 or self.member_word != "bare" or (tells_content and are_times_rising)
        return tells_members and (tells_content or (self.has_word and are_times_rising))

    def number(self, moment):
        return moment.epoch if self.form != "both" and WORDS[self.word][1] else moment.step

    def progress(self, moment):
        """Return the text that says how far the training is."""
        padding = self.padding
        if self.form == "date":
            return datetime.fromtimestamp(BEGAN_AT + moment.at, UTC).strftime("%Y-%m-%d_%H-%M-%S")
        if self.form == "both":
            return f"epoch{self.joiner}{moment.epoch:0{padding}}-step{self.joiner}{moment.step:0{padding}}"
        if self.form == "pair":
            return f"{moment.epoch}_{moment.step}"
        number = f"{self.number(moment):0{padding}}"
        if self.form == "behind" and WORDS[self.word][0] and len(self.word) > 1:
            return f"{number}{self.joiner.replace('=', '')}{self.word}"
        return f"{self.word}{self.joiner}{number}" if self.word else number

    def member(self, index, count):
        """Return the text that tells a member from the others, none where it is the only one."""
        if count == 1:
            return ""
        texts = {
            "rank": f"rank{index}",
            "shard": f"shard-{index}",
            "part": f"part_{index:02}",
            "of": f"{index + 1:05}-of-{count:05}",
            "world": f"world_size_{count}_rank_{index}",
            "mp": f"mp_rank_{index // 2:02}_{index % 2:03}",
            "tp": f"tp{index // 2}_pp{index % 2}",
            "node": f"node{index}",
            "bare": f"{index}",
        }
        return texts[self.member_word]

    def files(self, moment, count):
        """Return the files of a save of so many members, in the order of writing."""
        return {
            self._path(moment, component, self.member(index, count)): self._content(moment, component, index)
            for index in range(count)
            for component in self.components
        }

    def _path(self, moment, component, member):
        progress = self.progress(moment)
        comp = "" if component == "one" else component
        stem = comp or self.base
        if self.nesting == "flat":
            return self._name(comp or self.base, progress, member)
        if self.nesting == "epoch directory":
            return f"epoch_{moment.epoch}/{self._name(stem, progress, member)}"
        directory = self._join(self.prefix, self.base, progress)
        if self.nesting == "ranks above" and member:
            return f"{member}/{self._name(stem, progress, '')}"
        if self.nesting == "ranks below" and member:
            return f"{directory}/{member}/{stem or 'state'}.{self.suffix}"
        if self.nesting == "component below" and comp:
            return f"{directory}/{comp}/{self._join('state', member)}.{self.suffix}"
        return f"{directory}/{self._join(stem or ('' if member else 'state'), member)}.{self.suffix}"

    def _name(self, stem, progress, member):
        ends = (member, progress, self.metric) if self.is_member_first else (progress, self.metric, member)
        return f"{self._join(self.prefix, stem, *ends)}.{self.suffix}"

    @property
    def suffix(self):
        return contents.FAMILIES[self.family]

    def _join(self, *texts):
        return ("-" if self.joiner == "-" else "_").join(text for text in texts if text)

    def _content(self, moment, component, index):
        told = contents.Told(
            epoch=moment.epoch - (self.told == "one less") if self.told in {"all", "epoch", "one less"} else None,
            step=moment.step if self.told in {"all", "step"} else None,
            member=index,
        )
        return contents.make(self.family, self._kind(component), told)

    def _kind(self, component):
        if self.content == "weights" or component == "ema":
            return "weights"
        if component == "model" and "optim" in self.components:
            return "weights"
        return {"optim": "optimizer", "rng": "rng"}.get(component, "state")


def choose_scheme(choices):
    """Choose how a script of one's own lays out its saves."""
    pick = choices.pick
    components = COMPONENTS[pick("components", *["one"] * 4, *list(COMPONENTS)[1:])]
    family = pick("family", "torch pt", *contents.FAMILIES)
    if not contents.can_hold(family, components):
        components = COMPONENTS["one"]
    return Scheme(
        form=pick("number form", *FORMS),
        word=pick("word", "epoch", "step", *WORDS),
        joiner=pick("joiner", "_", "-", "=", ""),
        padding=pick("padding", 1, 1, 2, 4, 7),
        nesting=pick("nesting", *NESTINGS),
        member_word=pick("member word", *MEMBER_WORDS),
        is_member_first=choices.flip("member first", 0.2),
        components=components,
        base=pick("base", "ckpt", "model", "state", "checkpoint", ""),
        prefix=pick("prefix", "", "", "", "resnet50", "run7", "gpt2-small", "vit_b_16"),
        metric=pick("metric", "", "", "", "val_loss=0.12", "0.93"),
        family=family,
        content=pick("content", "state", "state", "state", "weights"),
        told=pick("told", "all", "all", "nothing", "epoch", "step", "one less"),
    )
