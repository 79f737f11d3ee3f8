"""The documents under /api/v1, which use the same rows as the commands."""

from datetime import datetime
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.present.responses.field_types import Count
from ckptd.present.responses.job_documents import FlagDocument, JobDocument, RunRowDocument
from ckptd.present.responses.run_documents import EndedRunDocument, RunDocument
from ckptd.present.responses.status_documents import ClusterDocument

Total = Annotated[Count, Field(description="How many there are without `offset` and `limit`.")]


class TakenFields(TypedDict):
    """How recent a document is."""

    taken_at: Annotated[datetime, Field(description="When this data was read.")]
    is_stale: Annotated[bool, Field(description="The database does not answer; this is its last known state.")]


class StatusDocument(TakenFields):
    """The state of the daemon, and the user who asks."""

    viewer: Annotated[str | None, Field(description="Account of the client; null if it is not identified.")]
    is_operator: Annotated[bool, Field(description="Whether the client sees all runs.")]
    clusters: Annotated[list[ClusterDocument], Field(description="The clusters on record.")]


class JobsDocument(TakenFields):
    """Started jobs."""

    jobs: Annotated[list[JobDocument], Field(description="The jobs, in the order of `sort`.")]
    total: Total


class FlagsDocument(TakenFields):
    """Open flags."""

    flags: Annotated[list[FlagDocument], Field(description="The flags, most severe first.")]
    total: Total


class RunsDocument(TypedDict):
    """Runs that a job belongs or belonged to."""

    runs: Annotated[list[RunDocument], Field(description="The runs.")]


class RunRowsDocument(TakenFields):
    """Runs with a started job."""

    runs: Annotated[list[RunRowDocument], Field(description="The runs, in the order of `sort`.")]
    total: Total


class UserDocument(TakenFields):
    """One user's runs and flags, as far as the client may see them."""

    user: Annotated[str, Field(description="Name of the account.")]
    runs: Annotated[list[RunRowDocument], Field(description="Runs with a started job.")]
    jobs: Annotated[list[JobDocument], Field(description="Started jobs.")]
    ended_runs: Annotated[list[EndedRunDocument], Field(description="The latest 50, newest first.")]
    flags: Annotated[list[FlagDocument], Field(description="Open flags.")]
    checkpoint_bytes: Annotated[Count, Field(description="Total size of the checkpoints of the runs in the queue.")]


class ErrorDocument(TypedDict):
    """Why a request failed."""

    error: Annotated[str, Field(description="One sentence.")]
