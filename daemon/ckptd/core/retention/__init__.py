"""Which checkpoints may be removed, and every reason against it.

These decisions, each with its reason, protect checkpoints from mistakes in a policy, in the database or in the clock.
The code that moves files does not rely on them, and checks every file again.
"""

from ckptd.core.retention.copied_runs import plan_as_copy
from ckptd.core.retention.file_patterns import parse_patterns
from ckptd.core.retention.floor import NEWEST
from ckptd.core.retention.parse_rules import (
    KEYS_ABOUT_KEEPING,
    RULE_KEYS,
    join_retention_settings,
    parse_rules,
    sort_retention_settings,
)
from ckptd.core.retention.plan import Decision, Plan, RunPlan, identify
from ckptd.core.retention.planner import plan, plan_run
from ckptd.core.retention.policy import Bounds, Guards, Policy, PolicyMode, apply_user_rules, check_policy
from ckptd.core.retention.policy_choice import PolicyChoice, PolicyMatch, choose_policy
from ckptd.core.retention.reference_limits import References, ReferenceSources, SeenLinks, is_old
from ckptd.core.retention.references import Reference, match
from ckptd.core.retention.removal_limits import Caps, RemovalAttempt, check_circuit_breaker, defer, defer_all, limit
from ckptd.core.retention.rules import (
    CALENDAR_PERIODS,
    KEEP_RULES,
    KeepBest,
    KeepCalendar,
    KeepEvery,
    KeepEverything,
    KeepLast,
    KeepPinned,
    KeepRule,
    KeepWithin,
    Ranked,
)
from ckptd.core.retention.run_guards import check_clock, compare_clocks, is_verified_enough, is_verified_full

__all__ = [
    "CALENDAR_PERIODS",
    "KEEP_RULES",
    "KEYS_ABOUT_KEEPING",
    "NEWEST",
    "RULE_KEYS",
    "Bounds",
    "Caps",
    "Decision",
    "Guards",
    "KeepBest",
    "KeepCalendar",
    "KeepEvery",
    "KeepEverything",
    "KeepLast",
    "KeepPinned",
    "KeepRule",
    "KeepWithin",
    "Plan",
    "Policy",
    "PolicyChoice",
    "PolicyMatch",
    "PolicyMode",
    "Ranked",
    "Reference",
    "ReferenceSources",
    "References",
    "RemovalAttempt",
    "RunPlan",
    "SeenLinks",
    "apply_user_rules",
    "check_circuit_breaker",
    "check_clock",
    "check_policy",
    "choose_policy",
    "compare_clocks",
    "defer",
    "defer_all",
    "identify",
    "is_old",
    "is_verified_enough",
    "is_verified_full",
    "join_retention_settings",
    "limit",
    "match",
    "parse_patterns",
    "parse_rules",
    "plan",
    "plan_as_copy",
    "plan_run",
    "sort_retention_settings",
]
