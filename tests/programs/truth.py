"""What really happened to the attempts of one scenario, from what its program logged outside of the work directory."""

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

NOTHING = "none"


class Save(NamedTuple):
    path: str  # within the checkpoint directory
    step: int
    at: float


class Loaded(NamedTuple):
    path: str | None  # None: it started from nothing
    step: int


@dataclass(kw_only=True)
class AttemptTruth:
    """One attempt. Instants are seconds since the epoch."""

    job_id: int
    restart_count: int
    started_at: float
    mode: str
    ended_at: float = 0.0
    is_over: bool = False
    is_completed: bool = False  # the script ran to its end
    loaded: Loaded | None = None  # None: the program has not got so far
    saves: list[Save] = field(default_factory=list)
    unsure: list[Save] = field(default_factory=list)  # begun when the program was ended, and nobody knows how far
    torn: list[Save] = field(default_factory=list)  # saves in whose middle the program died
    copied_at: float | None = None  # the last file that was copied to the slow directory
    out_of_room_at: float | None = None  # after this save the disk had no room for two more
    program_pid: int | None = None
    program_ended_at: float | None = None

    @property
    def all_saves(self):
        return [*self.saves, *self.unsure]

    @property
    def name(self):
        return f"{self.job_id}.{self.restart_count}"


def read_lines(path):
    """Return the marks of a log, a half-written last line left out."""
    try:
        lines = path.read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def find_copied(attempt):
    """Return the newest save of an attempt that was copied: what is copied has not been written to for two seconds."""
    copied = [save for save in attempt.saves if attempt.copied_at is not None and save.at < attempt.copied_at - 1]
    return max(copied, key=lambda save: save.at, default=None)


def read_attempts(path, program):
    """Return the attempts of a scenario in the order of their starts; `program` reads its own marks and logs."""
    attempts = {}
    for line in read_lines(path):
        name = line["job"], line["restart"]
        if line["event"] == "start":
            attempts[name] = AttemptTruth(
                job_id=line["job"], restart_count=line["restart"], started_at=line["at"], mode=line["mode"]
            )
        attempt = attempts[name]
        attempt.ended_at = line["at"]
        if line["event"] == "program":
            attempt.program_pid = int(line["pid"])
        elif line["event"] == "program-ended":
            attempt.program_ended_at = line["at"]
        elif line["event"] == "copied":
            attempt.copied_at = line["at"]
        elif line["event"] == "end":
            attempt.is_completed = True
        else:
            program.read_mark(attempt, line)
    result = sorted(attempts.values(), key=lambda each: each.started_at)
    for attempt in result:
        program.read_logs(attempt, path)
        attempt.is_over = attempt is not result[-1] or attempt.is_completed
    for attempt, following in pairwise(result):
        loaded = following.loaded.step if following.loaded else None
        attempt.saves += [save for save in attempt.unsure if save.step == loaded]  # so it was complete
        attempt.unsure = [save for save in attempt.unsure if save.step != loaded]
    return result


def newest_at(attempts, instant):
    """Return the newest complete save at an instant; None: there is none."""
    saves = sorted((save for attempt in attempts for save in attempt.saves), key=lambda save: save.at)
    place = bisect_right([save.at for save in saves], instant)
    return saves[place - 1] if place else None


def measure_unsaved(attempt):
    """Return the seconds between the newest save of an attempt, or its start, and its end."""
    if attempt.is_completed:
        return 0.0
    since = max((save.at for save in attempt.saves), default=attempt.started_at)
    return max(attempt.ended_at - since, 0.0)


def measure_redone(attempts):
    """Return by attempt the seconds of its saved work on which no later attempt builds."""
    builds_on = {}
    current = attempts[-1]
    while current is not None:
        source, save = find_source(attempts, current)
        if source is not None:
            builds_on[source.name] = save.at
        current = source
    redone = {}
    for attempt in attempts[:-1]:
        newest = max((save.at for save in attempt.saves), default=None)
        if newest is None or attempt.is_completed:
            redone[attempt.name] = 0.0
        else:
            redone[attempt.name] = newest - builds_on.get(attempt.name, attempt.started_at)
    redone[attempts[-1].name] = 0.0
    return redone


def find_source(attempts, attempt):
    """Return the attempt and the save from which an attempt resumed; Nones: from nothing."""
    if attempt.loaded is None or attempt.loaded.path is None:
        return None, None
    for earlier in reversed(attempts[: attempts.index(attempt)]):
        for save in reversed(earlier.saves):
            if save.step == attempt.loaded.step:
                return earlier, save
    raise ValueError(f"{attempt.name} loaded {attempt.loaded}, which nobody saved")
