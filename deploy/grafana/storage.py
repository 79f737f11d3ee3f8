"""The dashboard of what checkpoints take and what pruning does about it."""

from grafana.panels import (
    GREEN,
    RED,
    YELLOW,
    Board,
    bars,
    database_variables,
    lines,
    number,
    prometheus_variables,
    rows,
)

STORAGE = Board(
    name="storage",
    title="storage and pruning",
    about="What checkpoints take, what room there is, and what pruning did.",
    panels=(
        number(
            "On disk", "Size of the checkpoints of runs in the queue.", "sum(ckptd_checkpoint_bytes{DAEMON})", "bytes"
        ),
        number(
            "In the trash",
            "Moved aside by pruning, and still to be had back; quotas count it.",
            "sum(ckptd_trash_bytes{DAEMON})",
            "bytes",
        ),
        number(
            "Held too long",
            "Checkpoints in the trash longer than the site holds them: no policy enforces now, or deleting failed.",
            "sum(ckptd_trash_overdue_checkpoints{DAEMON})",
            "short",
            steps=[(None, GREEN), (1, YELLOW)],
        ),
        number(
            "Deleted for good",
            "Bytes freed over the time shown.",
            'sum(increase(ckptd_prune_act_bytes_total{action="empty",DAEMON}[$__range]))',
            "bytes",
        ),
        number(
            "Pruning is stopped",
            "1 while nothing at all is removed: errors of several users, or a clock that jumped.",
            "max(ckptd_prune_stopped{DAEMON})",
            "short",
            steps=[(None, GREEN), (1, RED)],
            link="daemon",
        ),
        number(
            "Users who are stopped",
            "Nothing of theirs is removed for now, because removals failed.",
            "sum(ckptd_prune_stopped_users{DAEMON})",
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
            "Written into checkpoints",
            "Size of the checkpoints that jobs completed, by time.",
            {"{{format}}": "sum by (format) (rate(ckptd_completed_checkpoint_bytes_total{DAEMON}[$__rate_interval]))"},
            "Bps",
            is_stacked=True,
        ),
        bars(
            "Free share of the fullest file system",
            "Of each type, where runs save.",
            "min by (type) (ckptd_filesystem_free_ratio{DAEMON})",
            "{{type}}",
            "percentunit",
            steps=[(None, RED), (0.05, YELLOW), (0.15, GREEN)],
        ),
        lines(
            "Free space of the fullest file system",
            "Of each type, where runs save.",
            {"{{type}}": "min by (type) (ckptd_filesystem_free_bytes{DAEMON})"},
            "bytes",
        ),
        lines(
            "Moved aside, brought back, deleted",
            "Bytes by time; what is deleted (empty) is what was freed.",
            {"{{action}}": "sum by (action) (rate(ckptd_prune_act_bytes_total{DAEMON}[$__rate_interval]))"},
            "Bps",
        ),
        lines(
            "Acts on checkpoints by result",
            "By hour, of the daemon's and of people's commands; refused and failed ones left everything as it was.",
            {
                "{{action}} {{result}}": "sum by (action, result) "
                "(rate(ckptd_prune_acts_total{DAEMON}[$__rate_interval])) * 3600"
            },
            "suffix: /h",
        ),
        bars(
            "Why acts came to nothing",
            "Over the time shown: what was found when it should be done, or what the file system said.",
            "sort_desc(sum by (action, reason) (increase(ckptd_prune_unfinished_acts_total{DAEMON}[$__range])))",
            "{{action}} {{reason}}",
            "short",
            steps=[(None, YELLOW), (20, RED)],
        ),
        lines(
            "What may go, and what the trash holds",
            "plan: policies that only show; enforce: waiting for a guard, a cap or a brake.",
            {
                "may go, {{mode}}": "sum by (mode) (ckptd_prune_planned_bytes{DAEMON})",
                "in the trash": "sum(ckptd_trash_bytes{DAEMON})",
            },
            "bytes",
        ),
        rows(
            "Directories that take most",
            "Checkpoints on disk now.",
            """SELECT runs."user" AS "User", runs.directory AS "Directory", count(*) AS "Checkpoints",
                   sum(checkpoints.size_bytes) AS "Size" FROM checkpoints JOIN runs ON runs.id = checkpoints.run_id
                   WHERE runs.cluster = ${cluster:sqlstring} AND checkpoints.gone_at IS NULL
                   GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 20""",
            units={"Size": "bytes"},
        ),
        rows(
            "Pruned by day",
            "What retention removed, and how much.",
            """SELECT date_trunc('day', checkpoints.pruned_at) AS "Day", count(*) AS "Checkpoints",
                   sum(checkpoints.size_bytes) AS "Size" FROM checkpoints JOIN runs ON runs.id = checkpoints.run_id
                   WHERE runs.cluster = ${cluster:sqlstring} AND checkpoints.pruned_at IS NOT NULL
                   GROUP BY 1 ORDER BY 1 DESC LIMIT 30""",
            width=12,
            units={"Size": "bytes"},
        ),
        rows(
            "Acts in the audit table",
            "Acts of the last 7 days by outcome; one without an outcome was cut off or is under way.",
            """SELECT audit.action AS "Act", coalesce(audit.outcome, 'not finished') AS "Outcome",
                   count(*) AS "Count", max(audit.begun_at) AS "Last" FROM audit
                   WHERE audit.cluster = ${cluster:sqlstring} AND audit.begun_at > now() - interval '7 days'
                   GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 50""",
            width=12,
        ),
    ),
    variables=[*prometheus_variables(), *database_variables()],
    since="now-7d",
)
