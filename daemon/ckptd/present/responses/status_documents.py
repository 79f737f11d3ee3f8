"""Documents about the daemon itself."""

from datetime import datetime
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.present.responses.field_types import Cluster, Count


class _ClusterFields(TypedDict):
    cluster: Cluster
    is_alive: Annotated[bool, Field(description="Whether the daemon is running.")]
    polled_at: Annotated[datetime | None, Field(description="Time of the last poll of Slurm.")]
    scanned_at: Annotated[datetime | None, Field(description="Time of the last scan.")]
    heartbeat_at: Annotated[datetime | None, Field(description="Time of the daemon's last heartbeat.")]


class ClusterDocument(_ClusterFields):
    """The daemon of one cluster."""

    is_slurm_up: Annotated[bool, Field(description="Whether Slurm answers.")]
    slurm_trouble: Annotated[str | None, Field(description="Why Slurm does not answer; for operators.")]


class DaemonStateFields(_ClusterFields):
    """The recorded state of the daemon of one cluster."""

    daemon: Annotated[str | None, Field(description="Host and pid of the daemon.")]
    backfill_since: Annotated[datetime | None, Field(description="Since when accounting records are missing.")]
    slurm_trouble: Annotated[str | None, Field(description="Why Slurm does not answer.")]
    node_scan_steps: Annotated[Count, Field(description="Steps in users' jobs since the daemon started.")]
    node_scan_seconds: Annotated[Count, Field(description="Time that these steps took.")]


class LeaderStateFields(TypedDict):
    """Which process acts for one cluster."""

    leader: Annotated[str | None, Field(description="Host and pid of the process that holds the lease of the cluster.")]
    leader_since: Annotated[datetime | None, Field(description="When it took the lease.")]
    standbys: Annotated[list[str], Field(description="Host and pid of the daemons that wait for the lease.")]


class MailStateFields(TypedDict):
    """The state of the outgoing mail of one cluster."""

    mailed_at: Annotated[datetime | None, Field(description="When mail was last sent.")]
    mail_due_at: Annotated[datetime | None, Field(description="Since when the oldest unsent mail is due.")]
    waiting_notices: Annotated[Count, Field(description="Notices that wait to be sent.")]


class PollStateFields(TypedDict):
    """Whether the daemon polls Slurm as often as it should."""

    poll_delay: Annotated[str | None, Field(description="Why the last poll is too old; null if it is not.")]


class RetentionStateFields(TypedDict):
    """Whether pruning is stopped."""

    pruning_paused: Annotated[str | None, Field(description="Why pruning is stopped; null if it is not.")]


class ActionStateFields(TypedDict):
    """The actions on jobs within the last hour."""

    actions_last_hour: Annotated[Count, Field(description="Actions on jobs within the last hour.")]
    actions_at_limit: Annotated[list[str], Field(description="Kinds of actions that reached an hourly limit.")]


class SharedDirectoryDocument(TypedDict):
    """A directory that the configuration of one cluster declares to share with another cluster."""

    directory: Annotated[str, Field(description="The directory; everything below it is shared, too.")]
    cluster: Annotated[str, Field(description="The other cluster.")]
    is_in_effect: Annotated[bool, Field(description="Whether runs there are joined.")]
    trouble: Annotated[str | None, Field(description="Why not; null if it is in effect.")]


class ClusterStateDocument(
    DaemonStateFields, PollStateFields, LeaderStateFields, MailStateFields, RetentionStateFields, ActionStateFields
):
    """The daemon of one cluster, as `ckptd status` prints it."""

    shared_directories: Annotated[
        list[SharedDirectoryDocument], Field(description="The directories that it shares with other clusters.")
    ]


class StateDocument(TypedDict):
    """What `ckptd status --json` prints."""

    clusters: Annotated[list[ClusterStateDocument], Field(description="The clusters on record.")]
    database: Annotated[str, Field(description="`answers`; without an answer, the command ends with an error.")]


class ReportDocument(TypedDict):
    """The totals after one cycle."""

    cluster: Cluster
    made_at: Annotated[datetime, Field(description="When the totals were made.")]
    slurm_trouble: Annotated[str | None, Field(description="Why Slurm does not answer.")]
    polled_at: Annotated[datetime | None, Field(description="Time of the last poll of Slurm.")]
    scanned_at: Annotated[datetime | None, Field(description="Time of the last scan.")]
    jobs_by_state: Annotated[dict[str, Count], Field(description="Number of jobs, by Slurm's state.")]
    runs_by_locator: Annotated[dict[str, Count], Field(description="Number of runs, by how their directory was found.")]
    flags: Annotated[dict[str, Count], Field(description="Number of open flags, by rule.")]
    checkpoints: Annotated[dict[str, Count], Field(description="Number of checkpoints, by format/state.")]


class OnceDocument(ReportDocument):
    """What `ckptd once --json` prints."""

    messages_sent: Annotated[Count, Field(description="Messages that were sent.")]
    waiting_notices: Annotated[Count, Field(description="Notices that wait until due or for a retry.")]
