"""Compares current findings with open flags: which flags open, worsen or resolve."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from ckptd.core.health import Evaluation
from ckptd.core.health.ending import ENDED, ends_with_attempt
from ckptd.core.model import Finding, Flag, RunKey

FlagKey = tuple[str, RunKey, int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagChanges:
    """The changes of one decision. A flag in `updated` stays open with other numbers."""

    opened: tuple[Flag, ...] = ()
    worsened: tuple[Flag, ...] = ()
    updated: tuple[Flag, ...] = ()
    resolved: tuple[Flag, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.opened or self.worsened or self.updated or self.resolved)


def compare(open_flags: Iterable[Flag], evaluations: Iterable[Evaluation], now: datetime) -> FlagChanges:
    """Return the changes for the evaluated runs; flags of other runs and of undecided rules stay."""
    by_run = {evaluation.run: evaluation for evaluation in evaluations}
    held = {_key(finding): finding for evaluation in by_run.values() for finding in evaluation.findings}
    known = {_key(flag.finding): flag for flag in open_flags}
    opened = tuple(Flag(finding=finding, opened_at=now) for key, finding in held.items() if key not in known)
    worsened: list[Flag] = []
    updated: list[Flag] = []
    resolved: list[Flag] = []
    for key, flag in known.items():
        evaluation = by_run.get(flag.finding.run)
        if key in held:
            finding = held[key]
            same_severity = replace(finding, severity=flag.finding.severity)
            if finding.severity.rank > flag.finding.severity.rank:
                worsened.append(replace(flag, finding=finding, worsened_at=now))
            elif same_severity != flag.finding:
                updated.append(replace(flag, finding=same_severity))
        elif evaluation is not None and flag.finding.rule not in evaluation.undecided:
            resolved.append(replace(flag, resolved_at=now))
    return FlagChanges(opened=opened, worsened=tuple(worsened), updated=tuple(updated), resolved=tuple(resolved))


def mark_ended(changes: FlagChanges, running_since: Mapping[tuple[RunKey, int | None], datetime]) -> FlagChanges:
    """Mark, in the evidence of resolved flags, those that only ended with their attempt."""
    return replace(
        changes,
        resolved=tuple(
            replace(flag, finding=replace(flag.finding, evidence={**flag.finding.evidence, ENDED: True}))
            if ends_with_attempt(flag, running_since)
            else flag
            for flag in changes.resolved
        ),
    )


def _key(finding: Finding) -> FlagKey:
    return (finding.rule, finding.run, finding.job_id)
