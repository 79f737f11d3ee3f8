"""Which rules supersede others: the lesser flag of a job adds nothing to the worse one."""

from collections.abc import Sequence

from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.not_resuming import NotResuming
from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.model import Finding

SUPERSEDED_BY = {NoCheckpointYet.name: (RestartedWithoutCheckpoint.name, NotResuming.name)}


def drop_superseded(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings without those that a worse finding about the same job includes."""
    held = {(finding.rule, finding.job_id) for finding in findings}
    return tuple(
        finding
        for finding in findings
        if not any((worse, finding.job_id) in held for worse in SUPERSEDED_BY.get(finding.rule, ()))
    )
