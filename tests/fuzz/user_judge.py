"""Whether what ckptd removed in users_play.py was allowed, by the truth of its world alone."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ckptd.core.model import Role
from fuzz.user_world import HARD_LINK
from support.prune_facts import MINUTE

TRASH = ".ckptd-trash"
MIN_AGE = 60  # minutes, of the policies
RESTART_GRACE, LAST_MINUTES = 15, 10
PATIENCE = 30  # minutes after a start, until which what was interrupted is whole again


@dataclass(frozen=True)
class Seen:
    """What the daemon that prunes can know of what people did."""

    missed: set  # saves whose absence its scans have seen
    pruned: set  # saves that it removed itself
    has_jobs: bool  # not where Slurm has said for long that there are none
    knows_copies: bool  # not once its clock has been wrong


class UserJudge:
    """Collects violations. Directories are compared right before and after each removal: nothing else acts then."""

    def __init__(self, world):
        self._world = world
        self.violations = []
        self.removed = Counter()  # saves by their convention
        self.halves = {}  # saves of which ckptd has moved a part, and since when
        self._held = {}  # entries of trashes, with the minute when each was first seen
        self._files = {}  # of a save that ckptd removed

    def note(self, text):
        self.violations.append(f"minute {self._world.minute}: {text}")

    def list_files(self):
        """Return every file outside of the trashes with what identifies it."""
        found = {}
        for folder, names, files in os.walk(self._world.root / "home"):
            names[:] = [name for name in names if name != TRASH]
            for name in files:
                path = Path(folder, name)
                status = path.lstat()
                found[path] = status.st_ino, status.st_size, status.st_mtime_ns
        return found

    def protect(self, policy_roles, last, doubt, seen):
        """Return the reason for each save that must stay now. `doubt` is why nothing may go at all, or None."""
        world, reasons = self._world, {}
        for training in world.trainings:
            complete = training.list_complete()
            everything = doubt or (_find_doubt(training, world.minute) if seen.has_jobs else None)
            for save in training.saves:
                reasons[save] = everything or save.kept_by or _find_reason(training, save, policy_roles, world.minute)
            newest = [each for each in complete if each.kept_by in {None, HARD_LINK}]  # what a policy counts
            for save in (*complete[-1:], *newest[-last:]):
                reasons[save] = reasons[save] or f"one of the newest {last}"
            if newest:
                furthest = max(newest, key=lambda each: each.step)
                reasons[furthest] = reasons[furthest] or "the furthest"
            if seen.has_jobs and training.running and training.resumed:
                reasons[training.resumed] = reasons[training.resumed] or "the running attempt has loaded it"
            _protect_broken(training, complete, reasons)
        for save in world.links.values():
            reasons[save] = reasons[save] or "a link leads to it"
        for save in world.named.values() if seen.has_jobs else ():
            reasons[save] = reasons[save] or "a waiting job names it"
        for save in seen.missed:
            reasons[save] = reasons[save] or "it was taken away and brought back"
        known = world.copies if seen.knows_copies else ()
        theirs = [each for each in known if each.original in seen.pruned or not each.is_from_trash]
        return reasons | dict.fromkeys(world.copies) | {each: each.kept_by for each in theirs}

    def compare(self, who, before, reasons, *, is_interrupted):
        """Judge what has happened since `before`; return the saves that ckptd has removed."""
        after = self.list_files()
        for path in before.keys() & after.keys():
            if before[path] != after[path]:
                self.note(f"{who} changed {path}")
        gone, came = before.keys() - after.keys(), after.keys() - before.keys()
        holders = {path: save for save in reasons if save.gone_by is None for path in save.files if not save.is_away}
        for path in sorted(gone - holders.keys()):
            self.note(f"{who} removed {path}, which is no save" + " but data" * (path in self._world.data))
        removed = []
        for save in {holders[path] for path in gone if path in holders} | set(self.halves):
            if self._is_removed(who, save, after, is_interrupted=is_interrupted):
                removed.append(save)
                if reasons.get(save):
                    self.note(f"{who} removed {save.name} ({save.training.convention}), though {reasons[save]}")
        self._note_returned(came, after)
        return removed

    def _is_removed(self, who, save, after, *, is_interrupted):
        left = [path for path in save.files if path in after]
        if not left:
            save.gone_by = "ckptd"
            self.halves.pop(save, None)
            self.removed[save.training.convention] += 1
            return True
        if len(left) == len(save.files):
            self.halves.pop(save, None)
        elif is_interrupted:
            self.halves.setdefault(save, self._world.minute)
        elif save not in self.halves or self._world.minute - self.halves[save] > PATIENCE:
            self.halves.pop(save, None)
            self.note(f"{who} tore {save.name} ({save.training.convention}): {len(left)} of {len(save.files)} are left")
        return False

    def _note_returned(self, came, after):
        for training in self._world.trainings:
            for save in training.saves:
                if save.gone_by == "ckptd" and any(path in came for path in save.files):
                    if all(path in after for path in save.files):
                        save.gone_by = None
                        self.removed[training.convention] -= 1
                    else:
                        self.note(f"{save.name} is back in part")

    def check_trash(self, hold):
        """No entry of a trash vanishes before its hold is over, unless its files are back."""
        minute = self._world.minute
        trash = self._world.root / "home" / TRASH
        there = {each.name.removesuffix(".deleting") for each in trash.iterdir()} if trash.is_dir() else set()
        for name in self._held.keys() - there:
            since, files = self._held.pop(name)
            if (minute - since) * MINUTE < hold - 10 * MINUTE and not all(path.exists() for path in files):
                self.note(f"{name} was deleted after {minute - since} minutes")
        for name in there - self._held.keys():
            self._held[name] = minute, []


def _find_doubt(training, minute):
    """Return why nothing of a run may go now: its attempt may load anything, or save for its successor."""
    running = training.running
    if running is None:
        return None
    if minute - running.started_at < RESTART_GRACE and len(training.executions) > 1:
        return "a restarted attempt may be loading"
    if running.started_at + training.limit - minute < LAST_MINUTES:
        return "the time limit is near"
    return None


def _find_reason(training, save, policy_roles, minute):
    framework = training.framework
    if training.writing and training.writing[0] is save:
        return "it is being written"
    if framework.role not in policy_roles:
        return f"its role is {framework.role.value}"
    if framework.role is Role.WEIGHTS and not framework.has_word:
        return "weights without a word"
    if framework.is_fixed:
        return "its name is fixed"
    if minute - (save.begun_at if save.ended_at is None else save.ended_at) < MIN_AGE:
        return "it is young"
    return None


def _protect_broken(training, complete, reasons):
    """What was cut off stays until a complete one is newer, and another one got as far."""
    for save in training.saves:
        if save.is_complete or not save.is_there or reasons[save]:
            continue
        if not any(each.begun_at > save.begun_at for each in complete):
            reasons[save] = "cut off, and nothing newer is complete"
        elif not any(each.step >= save.step for each in complete):
            reasons[save] = "cut off, and nothing complete got as far"
