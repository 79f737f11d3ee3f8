"""What the agent may do: values of the administrator's configuration, and never of a request.

The agent reads them itself (`ckptd.service.agent_policy`), so that whoever controls the main process, which talks to
the network, cannot widen them.
"""

from dataclasses import dataclass, field
from typing import Any

from ckptd.checkpoints.agent.identities import Identities
from ckptd.core.node_scans.step_policy import NodeScanPolicy
from ckptd.core.verification.job_policy import VerifyJobPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestPolicy:
    """The limits of every request. The defaults are the configuration's."""

    identities: Identities = field(default_factory=Identities)
    allowed_roots: tuple[str, ...] = ("/",)
    quota_command: tuple[str, ...] = ()
    workspace_databases: tuple[str, ...] = ()
    write_grace_seconds: float = 60
    max_depth: int = 6
    max_entries: int = 200_000
    discovery_depth: int = 3
    discovery_entries: int = 20_000
    may_move: bool = False  # whether a retention policy enforces removals
    hold_seconds: float = 7 * 86_400.0
    no_room_hold_seconds: float | None = None  # None: the same as the other
    clock_tolerance_seconds: float = 300.0
    signal_partitions: tuple[str, ...] = ()  # shell patterns of partitions where the site allows this action on jobs
    hold_partitions: tuple[str, ...] = ()
    resubmit_partitions: tuple[str, ...] = ()
    max_resubmits: int = 10  # of one run
    verify_jobs: VerifyJobPolicy = field(default_factory=VerifyJobPolicy)  # without a partition, none is submitted
    node_scans: NodeScanPolicy = field(default_factory=NodeScanPolicy)  # without a partition, there are no steps
    max_requests_per_minute: int = 1200  # on behalf of one user
    is_person: bool = False  # started by a person's command, which keeps its rights and may end a hold

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RequestPolicy":
        """Build the policy again that was written as JSON."""
        identities = Identities(**_with_tuples(data["identities"]))
        verify_jobs = VerifyJobPolicy(**data["verify_jobs"])
        node_scans = NodeScanPolicy(**_with_tuples(data["node_scans"]))
        built = {"identities": identities, "verify_jobs": verify_jobs, "node_scans": node_scans}
        return cls(**{**_with_tuples(data), **built})


def _with_tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
