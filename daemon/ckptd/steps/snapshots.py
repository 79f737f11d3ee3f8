"""What steps publish for others to read: never changed once published, only replaced."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from ckptd.checkpoints.agent.scan_client import JobTasks
from ckptd.core.discovery import path_mentions
from ckptd.core.discovery.path_mentions import JobMentions
from ckptd.core.fleet.fleet_totals import RunShare
from ckptd.core.job_actions.action_policy import ActionKind, DeferReason
from ckptd.core.model import Flag, Job, RunHistory, RunKey, Scan, Unknown, Workspace
from ckptd.core.model.records import NodeScanCost
from ckptd.core.notices import Notice, number_of

NOT_RUN = "not run"  # of a scan on a node: Slurm or the configuration refused the step


@dataclass(frozen=True, slots=True)
class RunHistories:
    """Every run as the last decision evaluated it. Owned by the step `decide`."""

    by_run: Mapping[RunKey, RunHistory] = field(default_factory=dict)
    shares: Mapping[RunKey, RunShare] = field(default_factory=dict)  # what each adds to the totals of the fleet


@dataclass(frozen=True, slots=True)
class CurrentFlags:
    """The open flags as the last decision recorded them, oldest first. Owned by the step `decide`."""

    flags: tuple[Flag, ...] | None = None  # None: nothing was decided yet


@dataclass(frozen=True, slots=True)
class ScanProgress:
    """Progress of the scans. Owned by the step `scan`."""

    scanned_at: datetime | None = None  # the last scan of one owner's directories
    # of the runs that were found since the start; some of them may no longer be watched
    located_by: Mapping[RunKey, str] = field(default_factory=dict)
    # runs without a directory whose batch script names one; some of them may no longer be watched
    named_by_script: frozenset[RunKey] = frozenset()

    def with_named(self, run: RunKey) -> "ScanProgress":
        """Note that the batch script of a run names a directory."""
        return self if run in self.named_by_script else replace(self, named_by_script=self.named_by_script | {run})

    def without_unnamed(self, runs: Container[RunKey]) -> "ScanProgress":
        """Remove all other runs whose batch scripts named a directory."""
        named = frozenset(each for each in self.named_by_script if each in runs)
        return self if named == self.named_by_script else replace(self, named_by_script=named)


@dataclass(frozen=True, slots=True)
class NodeScanTotals:
    """The steps in users' jobs since the start, and what they cost. Owned by the step `scan-on-nodes`."""

    directories: tuple[str, ...] = ()  # that only nodes see
    steps: Mapping[str, int] = field(default_factory=dict)  # by how they went
    seconds: float = 0.0

    @property
    def cost(self) -> NodeScanCost:
        """The steps that ran, also those that failed, and their time."""
        return NodeScanCost(sum(self.steps.values()) - self.steps.get(NOT_RUN, 0), round(self.seconds))

    def plus(self, how: str, seconds: float) -> "NodeScanTotals":
        """Count one more step."""
        steps = {**self.steps, how: self.steps.get(how, 0) + 1}
        return NodeScanTotals(self.directories, steps, self.seconds + seconds)


@dataclass(frozen=True, slots=True)
class JobResultOffers:
    """Results of jobs that the next scan of a run takes. Owned by the step `verify`; scans remove what they took."""

    by_run: Mapping[RunKey, JobTasks] = field(default_factory=dict)

    def with_offer(self, run: RunKey, offer: JobTasks) -> "JobResultOffers":
        """Offer results of a run."""
        return JobResultOffers({**self.by_run, run: offer})

    def without(self, offers: Mapping[RunKey, JobTasks]) -> "JobResultOffers":
        """Withdraw these offers, but no later ones of the same runs."""
        return JobResultOffers({run: offer for run, offer in self.by_run.items() if offers.get(run) != offer})

    def without_ticket(self, ticket: str) -> "JobResultOffers":
        """Withdraw what is offered of a ticket."""
        return JobResultOffers({run: offer for run, offer in self.by_run.items() if offer.ticket != ticket})


@dataclass(frozen=True, slots=True)
class QueuedMentions:
    """The paths that queued jobs name. Owned by the step `poll`.

    Pruning passes in what it reads before a removal: scripts, and the real paths behind links.
    """

    queued: Mapping[int, Job] = field(default_factory=dict)  # every job that has not ended, as of the last poll
    by_job: Mapping[int, JobMentions] = field(default_factory=dict)  # of jobs that name something, or may in a script

    def list_of(self, owners: Container[int]) -> list[JobMentions]:
        """Return what jobs name; of these owners, also the jobs that name nothing."""
        nothing = (job for job_id, job in self.queued.items() if job_id not in self.by_job and job.uid in owners)
        return [*self.by_job.values(), *(path_mentions.describe(job, None, reads_scripts=False) for job in nothing)]


@dataclass(frozen=True, slots=True)
class PollPace:
    """How often the queue is polled while Slurm answers as it did last. Owned by the step `poll`."""

    interval: timedelta = timedelta(0)  # longer than configured where Slurm is slow

    def longest_age(self, configured: timedelta) -> timedelta:
        """Return how old a poll may be for rules: as configured, or until the second poll at this pace is missed."""
        return max(configured, self.interval * 2)


@dataclass(frozen=True, slots=True)
class SharedRuns:
    """The runs that have parts on other clusters. Owned by the step `share`.

    `elsewhere` are those for which the daemon of another cluster acts: this one scans, judges and prunes none of them.
    `writers` are the running jobs of the other parts.
    """

    elsewhere: frozenset[RunKey] = frozenset()
    writers: Mapping[RunKey, tuple[tuple[Job, str], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PurgeFacts:
    """What the site's own cleaning may delete. Owned by the step `check-purges`."""

    workspaces: Mapping[RunKey, Workspace | Unknown | None] = field(default_factory=dict)
    # scans of runs whose jobs have ended, and whose newest complete checkpoint may be deleted soon
    ended: Mapping[RunKey, Scan | Unknown] = field(default_factory=dict)


class Submission(NamedTuple):
    """A job, or all tasks of an array; with its owner, because job ids are reused after Slurm has lost its state."""

    uid: int
    number: int  # of the job or array

    @classmethod
    def of_job(cls, job: Job) -> Self:
        return cls(job.uid, number_of(job))

    @classmethod
    def of_notice(cls, notice: Notice) -> Self:
        """Return whose MailUser a notice without an address waits for."""
        return cls(notice.run.uid, int(notice.recipient.address))


@dataclass(frozen=True, slots=True)
class MailAddresses:
    """The MailUser of jobs. Owned by the step `decide`; reminders read and add answers in the same way."""

    by_job: Mapping[Submission, str | None] = field(default_factory=dict)  # of those asked about
    rests_since: datetime | None = None  # from asking more such questions
    unaddressed: frozenset[Submission] = frozenset()  # whose answer a notice waits for


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """The actions on jobs since the start, by kind and result; and those deferred now, by reason."""

    done: Mapping[tuple[ActionKind, str], int] = field(default_factory=dict)
    deferred: Mapping[tuple[ActionKind, DeferReason], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """The messages since the start, by channel and result, and whether mail to users waits for its limit per hour."""

    by_result: Mapping[tuple[str, str], int] = field(default_factory=dict)
    is_limit_reached: bool = False
