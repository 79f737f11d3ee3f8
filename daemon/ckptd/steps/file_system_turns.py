"""Makes scans wait where a file system has a budget, so that no metadata server suffers.

How much a scan reads is known only afterwards. So a scan begins as soon as nothing is owed, and then owes the time that
its entries take at the budget's rate: no other scan begins there before that has passed.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from ckptd.checkpoints.agent.scan_client import CheckpointLocation
from ckptd.core.discovery.file_system_budgets import FileSystemBudget, find_budget
from ckptd.core.discovery.nearby_candidates import DirectorySearch
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.steps.parts import Parts
from ckptd.steps.state import State

Budgets = tuple[FileSystemBudget, ...]


class FileSystemTurns:
    """Which file systems scans may use now. It has its own lock, held for one call at a time."""

    def __init__(self, read_seconds: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._read_seconds = read_seconds
        self._free_at: dict[str, float] = {}  # by a budget's path, on the clock of `read_seconds`
        self._at_work: Counter[str] = Counter()  # owners, by a budget's path

    def must_wait(self, budgets: Budgets, directory: str) -> bool:
        """Whether no scan of this directory may begin now."""
        budget = find_budget(budgets, directory)
        return budget is not None and self._must_wait(budget)

    def owes(self, budgets: Budgets, directory: str) -> bool:
        """Whether scans of this file system read more than its budget allows until now."""
        budget = find_budget(budgets, directory)
        return budget is not None and self._owes(budget)

    def begin(self, budgets: Budgets, directories: Iterable[str]) -> frozenset[str]:
        """Take a place on each file system of these directories where one is free; return the paths for `end`."""
        with self._lock:
            found = {budget for each in directories if (budget := find_budget(budgets, each)) is not None}
            taken = frozenset(budget.path for budget in found if not self._must_wait(budget))
            self._at_work.update(taken)
        return taken

    def end(self, taken: Iterable[str]) -> None:
        """Give places back."""
        with self._lock:
            self._at_work.subtract(taken)

    def charge(self, budgets: Budgets, directory: str, entry_count: int) -> None:
        """Note that a scan or search of this directory read so many entries."""
        budget = find_budget(budgets, directory)
        if budget is None or budget.entries_per_second is None:
            return
        owed = min(entry_count, budget.most_entries) / budget.entries_per_second
        with self._lock:
            self._free_at[budget.path] = max(self._free_at.get(budget.path, 0.0), self._read_seconds()) + owed

    def _must_wait(self, budget: FileSystemBudget) -> bool:
        if budget.parallel is not None and self._at_work[budget.path] >= budget.parallel:
            return True
        return self._owes(budget)

    def _owes(self, budget: FileSystemBudget) -> bool:
        return budget.entries_per_second is not None and self._free_at.get(budget.path, 0.0) > self._read_seconds()


def charge_scans(parts: Parts, state: State, scanned: Iterable[tuple[RunKey, Scan | Unknown | None]]) -> None:
    """Note what scans read. A directory that changed is listed twice, and counted once."""
    turns = state.own(FileSystemTurns, FileSystemTurns)
    for run, scan in scanned:
        if isinstance(scan, Scan):
            turns.charge(parts.budgets, run.directory, scan.entry_count)


def charge_searches(
    parts: Parts, state: State, searches: Iterable[DirectorySearch], answers: Iterable[CheckpointLocation | Unknown]
) -> None:
    """Note what searches read, in the file systems of the jobs' working directories."""
    turns = state.own(FileSystemTurns, FileSystemTurns)
    for sought, answer in zip(searches, answers, strict=True):
        if isinstance(answer, CheckpointLocation):
            turns.charge(parts.budgets, str(sought.job.work_dir), answer.entry_count)
