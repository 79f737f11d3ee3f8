"""What a plan may remove from a world and what it must, and what is wrong with a plan that does otherwise."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter

from ckptd.core.model import Role


@dataclass(frozen=True)
class Asked:
    """What the site's policy says."""

    last: int = 1
    roles: frozenset[Role] = frozenset({Role.STATE})
    formats: tuple[str, ...] = ()  # empty: all
    prune_files: tuple[str, ...] = ()  # patterns of base names: what they name may go whatever it is


@dataclass(frozen=True)
class Decided:
    """What a plan says of one of its checkpoints. Files are relative to the root."""

    files: frozenset[str]
    is_kept: bool
    reasons: tuple[str, ...]
    formats: frozenset[str] = frozenset()  # its own and those of its parts


@dataclass(frozen=True)
class Violation:
    """One property that does not hold. `kind` is short, for counting."""

    kind: str
    detail: str


def judge(saves, data, kept_files, asked, decisions):
    """Return the violations of one plan, and the saves that it must remove and those of them that it does."""
    gone = frozenset().union(*(decided.files for decided in decisions if not decided.is_kept))
    violations = [*_violations(saves, gone, asked), *_forbidden(saves, data, kept_files, gone, asked)]
    for decided in decisions:
        if not any(decided.reasons):
            violations.append(Violation("no reason", min(decided.files)))
        if not decided.is_kept and asked.formats and not decided.formats <= set(asked.formats):
            violations.append(Violation("a format that may not go", min(decided.files)))
    must = list_must(saves, asked)
    return violations, must, [save for save in must if save.members <= gone]


def _forbidden(saves, data, kept_files, gone, asked):
    for path in sorted(gone & list_kept_data(data, asked)):
        yield Violation("data", path)
    for path in sorted(gone & set(kept_files)):
        yield Violation("marker or log", path)
    known = frozenset().union(*(save.files for save in saves)) | set(data) | set(kept_files)
    for path in sorted(gone - known):
        yield Violation("nobody's file", path)


def list_kept_data(data, asked):
    """Return the data that must stay: all that no pattern of `prune_files` names."""
    return {path for path in data if not any(fnmatchcase(path.rpartition("/")[2], each) for each in asked.prune_files)}


def _violations(saves, gone, asked):
    newest = list_newest(saves, asked.last)
    for save in saves:
        touched = gone & frozenset(save.files)
        if touched and not save.members <= gone:
            count, total = len(save.members & gone), len(save.members)
            yield Violation("torn", f"{_show(save)}: {count} of its {total} files would go")
        elif touched and (why := protection_of(save, newest, asked)):
            yield Violation(why, _show(save))


def protection_of(save, newest, asked):
    """Return why a save may not be removed, None where it may."""
    if save.keeps:
        return save.keeps
    if save.role not in asked.roles:
        return f"its role is {save.role.value}"
    if save.role is Role.WEIGHTS and not save.has_word:
        return "weights without a progress word"
    if save.is_fixed:
        return "overwritten in place"
    if not save.is_complete and not any(other.at > save.at for other in newest):
        return "unfinished, and nothing newer is complete"
    return "newest" if any(save is other for other in newest) else None


def _show(save):
    return min(save.files)


def list_newest(saves, last):
    """Return the saves that no policy may remove: the newest of each series, and the last ones of each role."""
    complete = sorted((save for save in saves if save.is_complete and not save.is_fixed), key=attrgetter("at"))
    newest = list({save.series: save for save in complete}.values())
    for role in Role:
        newest += [save for save in complete if save.role is role][-last:]
    return newest


def list_must(saves, asked):
    """Return what a plan must remove: proven states that are among the last neither by time nor by progress.

    Where only some formats may go, nothing must. Of two checkpoints without a word beside their numbers neither must:
    models 1 and 2 that were trained for one and two epochs look the same.
    """
    found = []
    if asked.formats:
        return found
    for series in sorted({save.series for save in saves}):
        own = [save for save in saves if save.series == series and save.is_complete and not save.is_fixed]
        if len(own) <= 2 and not all(save.has_word for save in own):
            continue
        stays = [*_last_in_every_order(own, asked.last)]
        stays += _last_in_every_order([save for save in own if not save.keeps], asked.last)
        found += [
            save
            for save in own
            if save.is_proven
            and save.role is Role.STATE
            and not save.keeps
            and not any(save is other for other in stays)
        ]
    return found


def _last_in_every_order(saves, last):
    """Return the last ones by the truth, by progress and by the times that files show."""
    for key in ("at", "progress", "written_at"):
        yield from sorted(saves, key=attrgetter(key))[-last:]
