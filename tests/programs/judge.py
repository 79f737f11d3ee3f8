"""Compares what ckptd says of a run with what its programs logged: right, hedged (it is not sure) or wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from statistics import median

from programs import truth


class Verdict(StrEnum):
    RIGHT = "right"
    HEDGED = "hedged"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One statement beside the truth."""

    run: str
    subject: str
    verdict: Verdict
    said: str
    true: str
    delay: float | None = None  # seconds from the event to the statement


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What the paces of jobs and daemon allow, in seconds."""

    save: float  # one save interval
    news: float  # two scans, and until a file counts as settled


LEAST_BEHIND, BEHIND = 2.5, 3  # times what is usual: when copies are too old
CAUSES = {"limit": "time-limit", "preempt": "preemption", "node": "node-failure"}  # others: requeue
# a rule that may hold in a scenario without being demanded there, and why it is true
ALLOWED = {
    ("at-risk", "chain"): "its time limit comes between two saves",
    ("at-risk", "chain-over"): "its time limit comes between two saves",
    ("checkpoint-overdue", "killed"): "the program is dead and saves nothing more",
    ("interrupted-save", "killed"): "the save was interrupted",
    ("damaged-checkpoint", "disk-full"): "its newest saves are cut short",
    ("interrupted-save", "disk-full"): "saves were cut short",
    ("checkpoint-overdue", "disk-full"): "saves fail, so none is complete",
}


class Judge:
    """Judges everything that is said of one run."""

    def __init__(self, run, bounds):
        self._run = run
        self._bounds = bounds
        self._attempts = run.attempts
        self._by_name = {(each.job_id, each.restart_count): each for each in run.attempts}
        self.judgements = []

    def _say(self, subject, verdict, said, true, delay=None):
        self.judgements.append(
            Judgement(run=self._run.name, subject=subject, verdict=verdict, said=str(said), true=str(true), delay=delay)
        )

    def _compare(self, subject, said, true):
        self._say(subject, Verdict.RIGHT if said == true else Verdict.WRONG, said, true)

    def judge_row(self, row, asked_at):
        """Judge one row of `jobs`: where the run saves, and how far its newest complete checkpoint is."""
        if row["directory"] is None:
            is_early = truth.newest_at(self._attempts, asked_at - self._bounds.news) is None
            verdict = Verdict.RIGHT if is_early else Verdict.HEDGED
            self._say("jobs: directory", verdict, "none", "nothing saved yet" if is_early else self._run.directory)
            return
        self._compare("jobs: directory", row["directory"], str(self._run.directory))
        said = row[self._run.program.UNIT]
        oldest = truth.newest_at(self._attempts, asked_at - self._bounds.news)
        newest = truth.newest_at(self._attempts, asked_at + 1)
        possible = {
            save.step
            for attempt in self._attempts
            for save in attempt.all_saves
            if (oldest is None or save.at >= oldest.at) and save.at <= asked_at + 1
        }
        if self._run.scenario.has_copies:  # what was not copied is gone with the fast disk
            possible |= {each.loaded.step for each in self._attempts if each.loaded and each.started_at <= asked_at}
        if oldest is None:
            possible.add(None)
        verdict = Verdict.RIGHT if said in possible else Verdict.WRONG
        self._say(f"jobs: {self._run.program.UNIT}", verdict, said, newest.step if newest else None)

    def judge_show(self, runs):
        """Judge the run that `show` prints."""
        if [run["run"] for run in runs] != [str(self._run.directory)]:
            self._say("show: run", Verdict.WRONG, [run["run"] for run in runs], self._run.directory)
            return
        [shown] = runs
        told = {(each["job_id"], each["restart_count"]): each for each in shown["attempts"]}
        self._compare("show: attempts", sorted(told), sorted(self._by_name))
        redone = truth.measure_redone(self._attempts)
        for name in sorted(told.keys() & self._by_name.keys()):
            attempt = self._by_name[name]
            self._judge_kind(told[name], attempt)
            self._judge_resume(told[name]["resumed_from"], attempt)
            if told[name]["lost"] is None:
                self._say("ledger: unsaved", Verdict.WRONG, "nothing of an attempt that ended", attempt.name)
                continue
            unsaved = told[name]["lost"]["unsaved"]
            low, high = unsaved["seconds"], unsaved["high_seconds"]
            self._judge_bound(f"ledger: unsaved of {name[1]}", low, high, truth.measure_unsaved(attempt))
            again = told[name]["lost"]["redone"]
            subject = f"ledger: redone of {name[1]}"
            self._judge_bound(subject, again["low_seconds"], again["high_seconds"], redone[attempt.name])
        self._judge_checkpoints(shown["checkpoints"])
        if self._run.scenario.has_copies:
            self._judge_locations(shown)

    def _judge_locations(self, shown):
        """Judge what is said of the fast and the slow directory; what was saved last may not be copied yet."""
        run = self._run
        last = self._attempts[-1]
        told = [(each["path"], each["role"]) for each in shown["locations"]]
        self._compare("show: locations", told, [(str(run.directory), "primary"), (str(run.copies), "copy")])
        newest, copied = last.saves[-1], truth.find_copied(last)
        found = shown["newest_complete"]
        self._compare("show: newest complete", (found["location"], found[run.program.UNIT]), (told[0][0], newest.step))
        self._compare("show: newest copy", shown["locations"][1]["newest_complete"], str(run.copies / copied.path))

    def _judge_kind(self, told, attempt):
        first = self._attempts[0]
        scenario = self._run.scenario
        kind = "requeue" if scenario.is_requeued else {"limit": "resubmit", "array": "array"}.get(scenario.end)
        true = None if attempt is first else kind
        self._compare("show: kind of restart", told["kind"], true)
        cause = "cancel"
        if attempt.is_completed:
            cause = "completed"
        elif attempt is not self._attempts[-1]:
            cause = CAUSES.get(scenario.end, "requeue")
        self._compare("show: cause of the end", told["cause"], cause)

    def _judge_resume(self, said, attempt):
        loaded = attempt.loaded
        if loaded is None:
            return
        true = str(self._run.work_dir / loaded.path) if loaded.path else "nothing"
        subject = "show: resumed from" + ("" if attempt is self._attempts[0] else f", {self._run.scenario.later}")
        if said is None:
            self._say(subject, Verdict.HEDGED, "nothing said", true)
            return
        if said["certainty"] == "unknown":
            holds = said["may_be_fresh"] if loaded.path is None else true in said["candidates"]
            text = f"unknown ({said['reason']}): {shorten(said['candidates'])}, fresh: {said['may_be_fresh']}"
            self._say(subject, Verdict.HEDGED if holds else Verdict.WRONG, text, true)
            return
        path = said["path"] or "nothing"
        same = {true}
        if self._run.scenario.has_copies and loaded.path:  # it was copied to where the program loaded it
            same.add(str(self._run.copies / Path(loaded.path).name))
        verdict = Verdict.RIGHT if path in same else Verdict.HEDGED if true in said["equals"] else Verdict.WRONG
        self._say(subject, verdict, f"{path} ({said['certainty']}, {said['reason']}, {said['evidence']})", true)

    def _judge_bound(self, subject, low, high, true):
        if low is None or high is None:
            self._say(subject, Verdict.HEDGED, "unknown", f"{true:.0f} s")
            return
        slack = self._bounds.save
        said = f"{low} s" if low == high else f"{low} to {high} s"
        if not low - slack <= true <= high + slack:
            verdict = Verdict.WRONG
        else:
            verdict = Verdict.RIGHT if high - low <= 2 * self._bounds.save else Verdict.HEDGED
        self._say(subject, verdict, said, f"{true:.0f} s")

    def _judge_checkpoints(self, shown):
        unit = self._run.program.UNIT
        saved = {save.step for attempt in self._attempts for save in attempt.all_saves}
        torn = {save.path for attempt in self._attempts for save in attempt.torn}
        for each in shown:
            name = each["path"].rpartition("/")[2]
            if each["state"] == "complete":
                verdict = Verdict.RIGHT if each[unit] in saved else Verdict.WRONG
                self._say("show: complete checkpoint", verdict, f"{name}, {unit} {each[unit]}", "saved")
            elif each["state"] == "damaged":
                is_torn = name in torn or (torn and self._run.program.TORN_MAY_BE_LEFTOVER)
                self._say("show: damaged checkpoint", Verdict.RIGHT if is_torn else Verdict.WRONG, name, sorted(torn))
            else:
                was_written = each["state"] == "writing" and each["deleted_at"] and each[unit] in saved
                verdict = Verdict.RIGHT if was_written else Verdict.HEDGED
                self._say("show: checkpoint under way", verdict, f"{name}: {each['state']}", "saved later")
        newest = self._attempts[-1].saves[-1].step
        told = {each[unit] for each in shown if each["state"] == "complete" and each["deleted_at"] is None}
        self._say("show: last save", Verdict.RIGHT if newest in told else Verdict.WRONG, sorted(told)[-1:], newest)

    def judge_flags(self, flags):
        """Judge all flags of the run, and say which are missing."""
        scenario = self._run.scenario
        mine = [flag for flag in flags if flag["job_id"] in self._run.jobs or flag["run"] == str(self._run.directory)]
        for rule in sorted(scenario.demanded - {flag["rule"] for flag in mine}):
            verdict, true = Verdict.WRONG, "it holds"
            if rule == "not-resuming" and self._is_first_save_further():
                verdict, true = Verdict.RIGHT, "its first save was the furthest"
            self._say(f"flags: {rule}", verdict, "no flag", true)
        for flag in mine:
            subject = f"flags: {flag['rule']}"
            if flag["rule"] in scenario.demanded:
                self._judge_demanded(flag, subject)
            elif flag["rule"] == "no-checkpoint-yet":
                opened_at = datetime.fromisoformat(flag["opened_at"]).timestamp()
                save = truth.newest_at(self._attempts, opened_at - self._bounds.news)
                self._say(subject, Verdict.WRONG if save else Verdict.RIGHT, flag["statement"], f"saved: {save}")
            elif reason := ALLOWED.get((flag["rule"], scenario.name)):
                self._say(subject, Verdict.RIGHT, flag["statement"], reason)
            else:
                self._say(subject, Verdict.WRONG, f"{flag['severity']}: {flag['statement']}", "it does not hold")
        repeated = {flag["rule"] for flag in mine if [each["rule"] for each in mine].count(flag["rule"]) > 1}
        for rule in sorted(repeated):
            self._say(f"flags: {rule}", Verdict.WRONG, "opened more than once", "it held once")

    def _is_first_save_further(self):
        """Whether the last attempt's first save was further than all before, so that nothing shows a loss."""
        *before, last = self._attempts
        reached = max(save.step or 0 for attempt in before for save in attempt.saves)
        return (last.saves[0].step or 0) > reached

    def _judge_demanded(self, flag, subject):
        first, last = self._attempts[0], self._attempts[-1]
        opened_at = datetime.fromisoformat(flag["opened_at"]).timestamp()
        best = [max(first.saves, key=lambda save: (save.step or 0, save.at))]
        if flag["rule"] == "copy-behind":
            self._judge_copy_behind(flag, subject, opened_at)
            return
        if flag["rule"] == "not-resuming":
            event, named = last.saves[0].at, flag["evidence"]["should_resume_from"]
        elif flag["rule"] == "no-room":
            best = [save for save in first.saves if save.at >= first.out_of_room_at]  # evidence is brought up to date
            event, named = first.out_of_room_at, flag["evidence"]["newest_good"]
        else:
            event, named = first.program_ended_at, _find_newest_complete(flag["evidence"])
        names = [save.path for save in best]
        is_named = named is not None and named.rpartition("/")[2] in names
        delay = opened_at - event
        is_in_time = -1 <= delay <= self._bounds.news
        verdict = Verdict.RIGHT if is_named and is_in_time else Verdict.WRONG
        self._say(subject, verdict, f"after {delay:.0f} s, names {shorten([named])}", " or ".join(names), delay)
        if flag["resolved_at"] is None and flag["rule"] in {"damaged-checkpoint", "no-room"}:
            self._say(subject, Verdict.WRONG, "never resolved", "later saves are complete")

    def _judge_copy_behind(self, flag, subject, opened_at):
        """Judge the flag by the usual delay of copies, which is the interval of saves; scans may take it for two."""
        [attempt] = self._attempts
        copied = truth.find_copied(attempt)
        usual = median(later.at - before.at for before, later in pairwise(attempt.saves))
        soonest, event, latest = (
            next((save.at for save in attempt.saves if save.at - copied.at > factor * usual), attempt.ended_at)
            for factor in (LEAST_BEHIND, BEHIND, 2 * BEHIND)
        )
        named = flag["evidence"]["newest_copy"]
        is_right = named == str(self._run.copies / copied.path) and soonest <= opened_at <= latest + self._bounds.news
        delay = opened_at - event
        verdict = Verdict.RIGHT if is_right else Verdict.WRONG
        self._say(subject, verdict, f"after {delay:.0f} s, names {shorten([named])}", copied.path, delay)


def _find_newest_complete(evidence: Mapping[str, object]):
    return next((evidence[key] for key in ("resume_from", "newest_complete", "newest_good") if evidence.get(key)), None)


def judge_totals(group, name, bounds, true, slack, *, is_part):
    """Judge one sum over a group of runs, which is at least and at most so much; `is_part`: not of all attempts."""
    low, high = bounds
    verdict = Verdict.WRONG
    if abs(low - true) <= slack:
        verdict = Verdict.RIGHT
    elif low <= true + slack and (is_part or true <= high + slack):
        verdict = Verdict.HEDGED
    said = f"{low:.0f} to {high:.0f}" + (" and unknown" if is_part else "")
    return Judgement(
        run=group, subject=f"metrics: {name}", verdict=verdict, said=said, true=f"{true:.0f} ± {slack:.0f}"
    )


def shorten(paths):
    """Return the names of paths, the first few."""
    names = [str(path).rpartition("/")[2] for path in paths]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") or "none"
