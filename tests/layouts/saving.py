"""Lets a training save: when, by which convention, in which attempt, and with what interruptions."""

from dataclasses import dataclass, replace

from ckptd.core.model import Role
from layouts import trainings
from layouts.frameworks import FRAMEWORKS
from layouts.trainings import Moment
from layouts.world import Save
from support import checkpoint_bytes as files

GAP = 600.0  # seconds between two saves
WRITING = 0.25  # seconds for one file


@dataclass(frozen=True)
class Times:
    """How files' times tell what was written when."""

    kind: str

    @property
    def are_rising(self):
        return self.kind in {"rising", "one time for each save"}

    def stamp(self, at, ends_at, path):
        """Return the time that a file shows which was written at an instant."""
        if self.kind == "coarse":  # saves follow each other fast, and the file system knows seconds
            return float(int(at / GAP / 3))
        if self.kind == "copied":
            return ends_at
        if self.kind == "copied by name":  # as cp -r of a sorted list: later names have later times
            return ends_at + sum(ord(character) / 128 ** (place + 1) for place, character in enumerate(path[:8]))
        return at


@dataclass(frozen=True)
class Convention:
    """How the main training saves, whether a framework does it or a script of one's own."""

    save: object
    role: Role
    has_word: bool
    is_proven: object  # takes the number of members, and whether times rise
    is_fixed: bool = False
    is_sharded: bool = False
    companions: object = lambda path: False
    markers: object = lambda moment: {}
    counts_epochs: bool = True  # two saves of an epoch have the same name
    tells_dates: bool = False  # names say when, and after a rollback no longer how far
    is_alone: bool = True  # the only training of its kind here


def _convention(choices):
    name = choices.pick("framework", *[None] * len(FRAMEWORKS), *FRAMEWORKS)
    if name is None:
        scheme = trainings.choose_scheme(choices)
        return Convention(
            save=scheme.files,
            role=scheme.role,
            has_word=scheme.has_word,
            is_proven=lambda members, rising: scheme.is_proven(members=members, are_times_rising=rising),
            is_sharded=True,
            tells_dates=scheme.form == "date",
            counts_epochs=scheme.number(Moment(1, 2, 0.0)) == 1 and scheme.form not in {"date", "pair"},
        )
    found = FRAMEWORKS[name]
    return Convention(
        save=found.save,
        role=found.role,
        has_word=found.has_word,
        is_proven=lambda members, rising: found.is_proven and (rising or not found.needs_times),
        is_fixed=found.is_fixed,
        is_sharded=found.is_sharded,
        companions=found.companions,
        markers=found.markers,
    )


def add_trainings(world, choices):
    """Add the training, or several that are alike: folds, seeds, a search."""
    convention = _convention(choices)
    place = choices.pick("several", *[None] * 10, "fold_{}/", "seed{}/", "fold{}_", "lr_0.{}/", "exp{}/")
    if place is None:
        _add_training(world, choices, convention, "training")
        return
    for number in (1, 2, 3):
        template = place.format(number)

        def save(moment, workers, template=template):
            return {f"{template}{path}": data for path, data in convention.save(moment, workers).items()}

        own = replace(convention, save=save, markers=lambda moment: {}, is_alone=False)
        _add_training(world, choices, own, f"training {number}", world.ends_at)


def _add_training(world, choices, convention, series, begun=0.0):
    times = Times(
        choices.pick("times", *["rising"] * 5, "one time for each save", "coarse", "copied", "copied by name")
    )
    if not convention.is_alone:
        times = Times("rising")
    members = choices.pick("members", 1, 1, 1, 2, 3, 4, 8) if convention.is_sharded else 1
    members = members if convention.is_alone else min(members, 2)
    moments, attempts = _moments(choices, convention, times, begun)
    changed, changed_at = _change_ranks(choices, members, len(moments))
    is_atomic = times.kind != "rising"
    steps = [moment.step for moment in moments]
    is_contradicted = convention.tells_dates and steps != sorted(steps)
    ends_at = moments[-1].at
    for index, (moment, attempt) in enumerate(zip(moments, attempts, strict=True)):
        count = members if index < changed_at else changed
        content = convention.save(moment, count)
        written = {path: moment.at + (0.0 if is_atomic else WRITING * at) for at, path in enumerate(content)}
        save = Save(
            series=series,
            files=content,
            at=moment.at,
            times={path: times.stamp(at, ends_at, path) for path, at in written.items()},
            progress=moment.step,
            attempt=attempt,
            role=convention.role,
            is_proven=convention.is_proven(count, times.are_rising) and not is_contradicted,
            has_word=convention.has_word,
            is_fixed=convention.is_fixed,
            companions=frozenset(path for path in content if convention.companions(path)),
        )
        _put(world, save)
    world.attempt_count = max(attempts) + 1
    world.ends_at = ends_at + GAP / 2
    last = world.saves[-1]
    world.markers.update({path: (data, last.written_at) for path, data in convention.markers(moments[-1]).items()})
    if choices.flip("log", 0.2):
        world.markers[f"{series}.log"] = (files.text("started"), last.written_at)
    if convention.is_alone and changed >= members:
        _interrupt(world, choices)


def _change_ranks(choices, members, save_count):
    """Return how many members later saves have, and from which on: for good, so that nobody takes it for damage."""
    kind = choices.pick("ranks change", *[None] * 9, "more", "fewer")
    if kind is None or members < 4 or save_count < 4:  # fewer, but not one: its name would have no rank
        return members, save_count
    return members + 2 if kind == "more" else members // 2, save_count // 2


def _put(world, save):
    """Add a save, which overwrites an earlier one of the same names."""
    world.saves = [before for before in world.saves if before.files.keys().isdisjoint(save.files)] + [save]


def _moments(choices, convention, times, begun):
    """Return when the training saved, in the order of writing, and by which attempt."""
    count = choices.pick("saves", 3, 4, 5, 2, 6, 1, 9, 12)
    count = count if convention.is_alone else min(count, 4)
    first = choices.pick("first epoch", 1, 0, 8, 98)
    per_epoch = 1 if convention.counts_epochs else choices.pick("saves per epoch", 1, 1, 2)
    stride = choices.pick("steps per save", 100, 1, 50, 1000)
    numbers = list(range(count))
    attempts = [0] * count
    kind = choices.pick("rollback", *["none"] * 7, "within an attempt", "at a restart", "restart without rollback")
    if kind != "none" and count > 2 and times.are_rising and convention.is_alone:
        back = 0 if kind == "restart without rollback" else choices.between("rolled back by", 1, count - 1)
        more = choices.between("saves after it", 1, 4)
        numbers += [count - back + at for at in range(more)]
        attempts += [0 if kind == "within an attempt" else 1] * more
    shift = choices.pick("steps are shifted after it", 0, 6)
    return [
        Moment(
            epoch=first + number // per_epoch,
            step=(first * per_epoch + number) * stride + (shift if at >= count and stride > shift else 0),
            at=begun + at * GAP,
        )
        for at, number in enumerate(numbers)
    ], attempts


def _interrupt(world, choices):
    """Leave the newest save unfinished: its last file is cut off, or its last files are missing."""
    kind = choices.pick("newest save", *["whole"] * 7, "cut off", "files missing")
    newest = world.saves[-1]
    written = [path for path in newest.files if path not in newest.companions]
    if kind == "whole" or newest.is_fixed:
        return
    content = dict(newest.files)
    if kind == "files missing" and len(written) > 1:
        for path in written[-max(1, len(written) // 2) :]:
            del content[path]
    else:
        content[written[-1]] = files.cut(content[written[-1]])
    kept = {path: at for path, at in newest.times.items() if path in content}
    world.saves[-1] = replace(newest, files=content, times=kept, is_complete=False)
