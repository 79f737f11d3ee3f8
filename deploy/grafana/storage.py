"""The dashboard of what checkpoints take and what pruning does about it."""

from grafana.panels import (
    GREEN,
    RED,
    YELLOW,
    Board,
    bars,
    both_variables,
    lines,
    number,
    rows,
)

STORAGE = Board(
    name="storage",
    title="storage and pruning",
    about="Size of checkpoints, free space, and pruning.",
    panels=(
        number(
            "On disk", "Size of the checkpoints of runs in the queue.", "sum(ckptd_checkpoint_bytes{DAEMON})", "bytes"
        ),
        number(
            "In the trash",
            "Checkpoints that pruning moved there; they can be restored and still count towards quotas.",
            "sum(ckptd_trash_bytes{DAEMON})",
            "bytes",
        ),
        number(
            "Overdue in the trash",
            "Checkpoints that should be deleted: their policy is no longer in mode enforce, or the deletion failed.",
            "sum(ckptd_trash_overdue_checkpoints{DAEMON})",
            "short",
            steps=[(None, GREEN), (1, YELLOW)],
        ),
        number(
            "Deleted",
            "Size of the checkpoints deleted from the trash over the time shown.",
            'sum(increase(ckptd_prune_operation_bytes_total{action="empty",DAEMON}[$__range]))',
            "bytes",
        ),
        number(
            "Pruning is paused",
            "1 while all removals are paused: removals of several users failed, or the clock is unreliable.",
            "max(ckptd_prune_paused{DAEMON})",
            "short",
            steps=[(None, GREEN), (1, RED)],
            link="daemon",
        ),
        number(
            "Paused users",
            "Users whose removals are paused because some of their removals failed.",
            "sum(ckptd_prune_paused_users{DAEMON})",
            "short",
            steps=[(None, GREEN), (1, YELLOW), (10, RED)],
        ),
        lines(
            "Size by format",
            "Checkpoints of runs in the queue.",
            {"{{format}}": "sum by (format) (ckptd_checkpoint_bytes{DAEMON})"},
            "bytes",
            is_stacked=True,
        ),
        lines(
            "Checkpoint data written",
            "Bytes per second, by format.",
            {"{{format}}": "sum by (format) (rate(ckptd_completed_checkpoint_bytes_total{DAEMON}[$__rate_interval]))"},
            "Bps",
            is_stacked=True,
        ),
        bars(
            "Free share of file systems",
            "Those that hold checkpoint directories, at most the 20 fullest.",
            "min by (mountpoint) (ckptd_filesystem_free_ratio{DAEMON})",
            "{{mountpoint}}",
            "percentunit",
            steps=[(None, RED), (0.05, YELLOW), (0.15, GREEN)],
        ),
        lines(
            "Free space of file systems",
            "Those that hold checkpoint directories, at most the 20 fullest.",
            {"{{mountpoint}}": "min by (mountpoint) (ckptd_filesystem_free_bytes{DAEMON})"},
            "bytes",
        ),
        lines(
            "Moved to trash, restored, deleted",
            "Bytes per second. prune moves to the trash, restore moves back, empty deletes and frees space.",
            {"{{action}}": "sum by (action) (rate(ckptd_prune_operation_bytes_total{DAEMON}[$__rate_interval]))"},
            "Bps",
        ),
        lines(
            "Operations on checkpoints by result",
            "Per hour, by the daemon and by commands; refused and failed ones changed nothing.",
            {
                "{{action}} {{result}}": "sum by (action, result) "
                "(rate(ckptd_prune_operations_total{DAEMON}[$__rate_interval])) * 3600"
            },
            "suffix: /h",
        ),
        bars(
            "Why operations failed",
            "Over the time shown: reasons for refusals and errors of the file system.",
            "sort_desc(sum by (action, reason) (increase(ckptd_prune_failures_total{DAEMON}[$__range])))",
            "{{action}} {{reason}}",
            "short",
            steps=[(None, YELLOW), (20, RED)],
        ),
        lines(
            "Removable checkpoints and trash",
            "plan: the policy only plans; enforce: the removal is deferred by a guard, a cap or a circuit breaker.",
            {
                "removable, mode {{mode}}": "sum by (mode) (ckptd_prune_planned_bytes{DAEMON})",
                "in the trash": "sum(ckptd_trash_bytes{DAEMON})",
            },
            "bytes",
        ),
        rows(
            "Largest directories",
            "Checkpoints currently on disk.",
            """SELECT runs."user" AS "User", runs.directory AS "Directory", count(*) AS "Checkpoints",
                   sum(checkpoints.size_bytes) AS "Size" FROM checkpoints JOIN runs ON runs.id = checkpoints.run_id
                   WHERE runs.cluster = ${cluster:sqlstring} AND checkpoints.deleted_at IS NULL
                   GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 20""",
            units={"Size": "bytes"},
        ),
        rows(
            "Pruned by day",
            "Checkpoints that retention removed.",
            """SELECT date_trunc('day', checkpoints.pruned_at) AS "Day", count(*) AS "Checkpoints",
                   sum(checkpoints.size_bytes) AS "Size" FROM checkpoints JOIN runs ON runs.id = checkpoints.run_id
                   WHERE runs.cluster = ${cluster:sqlstring} AND checkpoints.pruned_at IS NOT NULL
                   GROUP BY 1 ORDER BY 1 DESC LIMIT 30""",
            width=12,
            units={"Size": "bytes"},
        ),
        rows(
            "Operations in the audit table",
            "Operations of the last 7 days by outcome; without an outcome: interrupted or in progress.",
            """SELECT audit.action AS "Action", coalesce(audit.outcome, 'not finished') AS "Outcome",
                   count(*) AS "Count", max(audit.begun_at) AS "Last" FROM audit
                   WHERE audit.cluster = ${cluster:sqlstring} AND audit.begun_at > now() - interval '7 days'
                   GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 50""",
            width=12,
        ),
    ),
    variables=both_variables(),
    since="now-7d",
)
