"""Viewers, and what they may see. Every page and document passes its rows through here.

Users see the runs that they own, operators see all runs, and unidentified clients see none.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ckptd.core.model import Flag, RunKey
from ckptd.core.model.records import EndedRun
from ckptd.web.cache import RatedJob, RatedRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """One client. If `uid` is set, the kernel reported it, and it takes precedence over the name."""

    name: str | None
    uid: int | None = None
    is_operator: bool = False

    @property
    def is_known(self) -> bool:
        return self.name is not None

    def may_ask(self, run: RunKey) -> bool:
        """Whether a run could be the viewer's. Others are not read, because the response time would reveal them."""
        return self.is_operator or self.uid is None or run.uid == self.uid

    def may_see(self, run: RunKey, user: str) -> bool:
        """Whether the viewer may see a run of this owner."""
        if self.is_operator:
            return True
        return run.uid == self.uid if self.uid is not None else self.is_known and user == self.name

    @property
    def only_user(self) -> str | None:
        """The user whose sums the viewer may see; None for operators, who may see everybody's."""
        return None if self.is_operator else self.name

    def jobs(self, jobs: Iterable[RatedJob]) -> list[RatedJob]:
        return [job for job in jobs if self.may_see(job.row.run, job.row.user)]

    def runs(self, runs: Iterable[RatedRun]) -> list[RatedRun]:
        return [run for run in runs if self.may_see(run.key, run.first.user)]

    def ended(self, runs: Iterable[EndedRun]) -> list[EndedRun]:
        return [run for run in runs if self.may_see(run.run, run.user)]

    def flags(self, flags: Iterable[Flag]) -> list[Flag]:
        return [flag for flag in flags if self.may_see(flag.finding.run, flag.finding.user)]


ANONYMOUS = Viewer(name=None)
