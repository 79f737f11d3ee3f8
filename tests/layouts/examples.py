"""Runs layouts by number, counts what came of them, and shows the smallest that breaks a property."""

import re
import traceback
from collections import Counter
from dataclasses import dataclass, field

from ckptd.core.model import Role
from layouts import pipeline, truth
from layouts.choices import Choices, simplify
from layouts.generator import generate

GOAL = 0.99  # of the sets that must go, what plans contain at least


@dataclass
class Tally:
    """What came of many layouts. `broken` has the first counterexample of each kind of violation."""

    count: int = 0
    must_count: int = 0
    removed_count: int = 0
    file_count: int = 0
    violations: Counter = field(default_factory=Counter)  # layouts by the kind of what is wrong with them
    missed: Counter = field(default_factory=Counter)  # sets that must go and stay, by why
    broken: dict = field(default_factory=dict)
    kept: dict = field(default_factory=dict)

    @property
    def recall(self):
        return self.removed_count / self.must_count if self.must_count else 1.0

    def add(self, choices, world, outcome):
        self.count += 1
        self.file_count += len(world.files())
        self.must_count += len(outcome.must)
        self.removed_count += len(outcome.removed)
        for kind in {violation.kind for violation in outcome.violations}:
            self.violations[kind] += 1
            self.broken.setdefault(kind, choices)
        for kind in _missed(outcome):
            self.missed[kind] += 1
            self.kept.setdefault(kind, choices)

    def merge(self, other):
        self.count += other.count
        self.must_count += other.must_count
        self.removed_count += other.removed_count
        self.file_count += other.file_count
        self.violations.update(other.violations)
        self.missed.update(other.missed)
        self.broken = {**other.broken, **self.broken}
        self.kept = {**other.kept, **self.kept}

    def sentence(self):
        broken = sum(self.violations.values())
        return (
            f"{self.count} layouts with {self.file_count} files, {broken} violations, "
            f"{self.removed_count} of {self.must_count} sets that must go would go ({self.recall:.2%})"
        )


def _missed(outcome):
    """Yield why each set that must go stays: the planner's own words, without paths and numbers."""
    removed = {id(save) for save in outcome.removed}
    for save in outcome.must:
        if id(save) not in removed:
            holders = [each for each in outcome.decisions if each.is_kept and each.files & save.members]
            reason = min((reason for each in holders for reason in each.reasons), default="it was not recognised")
            yield re.sub(r"/[\w=.,/@:-]+|\d+", "~", reason)


def choose(seed, number, fixed=None):
    return Choices(f"{seed}/{number}", fixed or {})


def ask(choices):
    """Return the world of these choices, and what the site's policy says of it."""
    world = generate(choices)
    roles = frozenset({Role.STATE, Role.WEIGHTS} if choices.flip("weights may go", 0.15) else {Role.STATE})
    return world, truth.Asked(
        last=choices.pick("last", 1, 2, 3),
        roles=roles,
        formats=choices.pick("formats", *[()] * 9, ("torch", "numpy")),
        prune_files=choices.pick("prune_files", *[()] * 4, ("emb_*.pt", "snapshot_*.hdf5", "fields_*")),
    )


def run_choices(choices):
    """Return the world of these choices and what comes of it."""
    world, asked = ask(choices)
    is_running = not choices.flip("the job has ended", 0.5)
    try:
        return world, pipeline.run(world, asked, is_running=is_running)
    except Exception as error:  # noqa: BLE001 - one layout must not end the run over all others
        at = traceback.extract_tb(error.__traceback__)[-1]
        failed = truth.Violation(f"error in {at.name}: {type(error).__name__}", f"{at.filename}:{at.lineno}: {error}")
        return world, pipeline.Outcome([failed], [], [], None, [])


def run_many(seed, numbers):
    """Run layouts by their numbers and return what came of them."""
    tally = Tally()
    for number in numbers:
        choices = choose(seed, number)
        tally.add(choices, *run_choices(choices))
    return tally


def smallest(choices, kind, *, is_missed=False):
    """Return the simplest choices found that still break a property, or let the same set stay."""

    def fails(tried):
        _, outcome = run_choices(tried)
        return kind in (_missed(outcome) if is_missed else {each.kind for each in outcome.violations})

    return simplify(choices, fails)


def show(choices):
    """Return a layout as people read it: its choices, its files with the truth, and what the plan says of them."""
    world, outcome = run_choices(choices)
    saves, data = world.after_hands()
    lines = [f"seed {choices.seed!r}: {choices.describe()}"]
    if outcome.skipped:
        lines.append(f"the run is skipped: {outcome.skipped}")
    told = {path: each for each in outcome.decisions for path in each.files}
    labels = {path: _label(at, save) for at, save in enumerate(saves) for path in save.files}
    labels |= dict.fromkeys(data, "data") | dict.fromkeys(world.markers, "marker")
    for path in sorted(labels):
        plan = told.get(path)
        mark = "?" if plan is None else "." if plan.is_kept else "X"
        reason = "" if plan is None else f"  <- {plan.reasons[0] if plan.reasons else 'no reason'}"
        lines.append(f"  {mark} {path:60} {labels[path]}{reason}")
    lines += [f"    {link} -> {target}" for link, target in world.links.items()]
    lines += [f"    by hand: {act}" for act in world.by_hand]
    lines += [f"  {each.kind}: {each.detail}" for each in outcome.violations]
    return "\n".join(lines)


def _label(number, save):
    notes = [
        save.role.value,
        f"at {save.written_at:g} s",
        "" if save.is_complete else "unfinished",
        "overwritten" if save.is_fixed else "",
        save.keeps or "",
        "proven" if save.is_proven else "",
    ]
    return f"set {number} of {save.series}: " + ", ".join(note for note in notes if note)
