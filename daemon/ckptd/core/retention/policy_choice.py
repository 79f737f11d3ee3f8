"""Chooses the policy of a run: the site's first one that matches, with the user settings added."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ckptd.core.model import Job, RunRecord
from ckptd.core.retention.parse_rules import parse_all_retention_settings, parse_consent
from ckptd.core.retention.policy import Bounds, Policy, apply_user_rules
from ckptd.core.text.job_patterns import JobPatterns


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyMatch(JobPatterns):
    """One policy and the runs that it is for.

    `format` must match every checkpoint of a run that is there, so that a policy for one format lets nothing of
    another go.
    """

    policy: Policy
    format: str = "*"

    def matches_run(self, job: Job, formats: Iterable[str]) -> bool:
        return self.matches(job) and all(fnmatchcase(each, self.format) for each in formats)


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyChoice:
    """The policy of one run, and the user settings that the site limits."""

    policy: Policy | None
    refused: tuple[str, ...] = ()


def choose_policy(
    matches: Iterable[PolicyMatch],
    bounds: Bounds,
    history: RunRecord,
    job: Job | None,
    user_settings: Mapping[str, Mapping[str, Any]],
) -> PolicyChoice:
    """Choose the policy of a run. `job` is its latest job; without a job, it is unknown which policy applies.

    `user_settings` are the retention settings of its owner's files, by directory. If any file keeps a checkpoint, it
    is kept; `prune_files` of any file permit removals.
    """
    if job is None:
        return PolicyChoice(policy=None)
    formats = {
        part.format
        for record in history.checkpoints
        if record.deleted_at is None and record.pruned_at is None
        for part in (record.checkpoint, *record.checkpoint.parts)
    }
    found = next((match.policy for match in matches if match.matches_run(job, formats)), None)
    if found is None:
        return PolicyChoice(policy=None)
    rules, problems = parse_all_retention_settings(user_settings)
    policy, refused = apply_user_rules(found, rules, bounds)
    patterns, misread = parse_consent(user_settings)
    if patterns:
        policy = replace(policy, prune_files=tuple(dict.fromkeys((*policy.prune_files, *patterns))))
    return PolicyChoice(policy=policy, refused=(*problems, *misread, *refused))
