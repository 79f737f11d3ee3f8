"""The document of `ckptd report` and of the page about lost work."""

from datetime import datetime
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.present.responses.field_types import Count


class BoundedWorkDocument(TypedDict):
    """Work in seconds, and in seconds times the nodes, CPUs and GPUs: at least `low_`, at most `high_`."""

    low_seconds: Annotated[Count, Field(description="At least.")]
    high_seconds: Annotated[Count, Field(description="At most.")]
    low_node_seconds: Annotated[Count, Field(description="At least, times the nodes.")]
    high_node_seconds: Annotated[Count, Field(description="At most, times the nodes.")]
    low_cpu_seconds: Annotated[Count, Field(description="At least, times the CPUs.")]
    high_cpu_seconds: Annotated[Count, Field(description="At most, times the CPUs.")]
    low_gpu_seconds: Annotated[Count, Field(description="At least, times the GPUs.")]
    high_gpu_seconds: Annotated[Count, Field(description="At most, times the GPUs.")]
    unknown_count: Annotated[Count, Field(description="Attempts about which nothing is known.")]


class LostWorkSumDocument(TypedDict):
    """The lost work of the ended attempts of one user, account, partition, cause or rule."""

    name: Annotated[str, Field(description="The user, account, partition, cause or rule; empty: none.")]
    attempt_count: Annotated[Count, Field(description="Ended attempts.")]
    unsaved: Annotated[
        BoundedWorkDocument, Field(description="Unsaved work. Its upper bounds include the unknown attempts.")
    ]
    redone: Annotated[
        BoundedWorkDocument,
        Field(description="Saved work that is computed again. Its bounds leave the unknown attempts out."),
    ]


class LostWorkReportDocument(TypedDict):
    """Lost work of the attempts that ended since an instant."""

    since: Annotated[datetime, Field(description="Attempts that ended since then.")]
    taken_at: Annotated[datetime, Field(description="When this data was read.")]
    by: Annotated[GroupedBy, Field(description="By what the rows are grouped; by rule, they overlap.")]
    rows: Annotated[list[LostWorkSumDocument], Field(description="The sums, most node time first.")]
    total: Annotated[LostWorkSumDocument, Field(description="The sum over all attempts, each counted once.")]
