"""Fold a rule's findings about many tasks of one array into one flag: they run one script and share one cause."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ckptd.core.health.evaluation import Evaluation
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.model import Finding, Flag, RunHistory, RunKey

FOLDED = NoCheckpointYet.name
_Array = tuple[str, int, int]  # cluster, owner, id


def fold_arrays(
    evaluations: Sequence[Evaluation], histories: Iterable[RunHistory], open_flags: Iterable[Flag]
) -> list[Evaluation]:
    """Keep one finding for each array: that of the task whose flag is open, else of the task with the lowest id.

    While an open flag is undecided, the findings about other tasks of its array are left out.
    """
    arrays: dict[tuple[RunKey, int | None], _Array] = {
        (history.key, job.job_id): (history.key.cluster, history.key.uid, job.array_job_id)
        for history in histories
        for job in history.jobs
        if job.array_job_id is not None
    }
    undecided = {each.run for each in evaluations if FOLDED in each.undecided}
    flagged = {(flag.finding.run, flag.finding.job_id) for flag in open_flags if flag.finding.rule == FOLDED}
    resting = {arrays[key] for key in flagged if key in arrays and key[0] in undecided}
    found: dict[_Array, list[Finding]] = defaultdict(list)
    for finding in (finding for each in evaluations for finding in each.findings):
        if finding.rule == FOLDED and (array := arrays.get((finding.run, finding.job_id))) is not None:
            found[array].append(finding)
    kept = {
        (each.run, each.job_id): len(findings) - 1
        for array, findings in found.items()
        if array not in resting
        for each in [min(findings, key=lambda one: ((one.run, one.job_id) not in flagged, one.job_id or 0))]
    }
    return [
        replace(
            each, findings=tuple(_fold(finding, kept) for finding in each.findings if _is_kept(finding, kept, arrays))
        )
        for each in evaluations
    ]


def _is_kept(
    finding: Finding, kept: dict[tuple[RunKey, int | None], int], arrays: dict[tuple[RunKey, int | None], _Array]
) -> bool:
    key = (finding.run, finding.job_id)
    return finding.rule != FOLDED or key not in arrays or key in kept


def _fold(finding: Finding, kept: dict[tuple[RunKey, int | None], int]) -> Finding:
    others = kept.get((finding.run, finding.job_id))
    if finding.rule != FOLDED or not others:
        return finding
    return replace(finding, evidence={**finding.evidence, "other_tasks": others})
