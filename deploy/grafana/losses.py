"""The dashboard of what was lost: restarts, ends, unsaved work."""

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


def _lost(unit: str, by: str) -> str:
    return f"sum by ({by}) (increase(ckptd_lost_{unit}_seconds_total{{DAEMON}}[$__range])) / 3600"


LOST_WORK = Board(
    name="lost-work",
    title="restarts and lost work",
    about="Unsaved work of ended attempts, since their newest usable checkpoint, and saved work computed again.",
    panels=(
        number(
            "Unsaved GPU hours lost",
            "Lower bound, over the time shown.",
            "sum(increase(ckptd_lost_gpu_seconds_total{DAEMON}[$__range])) / 3600",
            "suffix: GPU-hours",
            width=3,
            steps=[(None, GREEN), (100, YELLOW), (1000, RED)],
        ),
        number(
            "Unsaved node hours lost",
            "Lower bound, over the time shown.",
            "sum(increase(ckptd_lost_node_seconds_total{DAEMON}[$__range])) / 3600",
            "suffix: node-hours",
            width=3,
        ),
        number(
            "Unsaved node hours lost (upper bound)",
            "Beside the lower bound; the difference is work of which nobody knows whether it was saved.",
            "sum(increase(ckptd_lost_high_node_seconds_total{DAEMON}[$__range])) / 3600",
            "suffix: node-hours",
            width=3,
        ),
        number(
            "Redone node hours",
            "Saved work that is computed again, because restarts did not resume from it (lower bound).",
            "sum(increase(ckptd_redone_node_seconds_total{DAEMON}[$__range])) / 3600",
            "suffix: node-hours",
            width=3,
        ),
        number("Restarts", "Over the time shown.", "sum(increase(ckptd_restarts_total{DAEMON}[$__range]))", "short"),
        number(
            "Restarts without a checkpoint",
            "Running runs that restarted without a usable checkpoint.",
            'sum(ckptd_open_flags{rule="restarted-without-checkpoint",DAEMON}) or vector(0)',
            "short",
            steps=[(None, GREEN), (1, RED)],
            link="risk",
        ),
        number(
            "Restart loops",
            "Runs that restart repeatedly without progress.",
            'sum(ckptd_open_flags{rule="restart-loop",DAEMON}) or vector(0)',
            "short",
            steps=[(None, GREEN), (1, RED)],
            link="risk",
        ),
        bars(
            "Unsaved GPU hours lost by cause",
            "Lower bound, over the time shown.",
            _lost("gpu", "cause"),
            "{{cause}}",
            "suffix: GPU-hours",
        ),
        bars(
            "Unsaved GPU hours lost by partition",
            "Lower bound, over the time shown.",
            _lost("gpu", "partition"),
            "{{partition}}",
            "suffix: GPU-hours",
        ),
        lines(
            "Restarts by type",
            "Per hour: requeued by Slurm, the next task of an array, or resubmitted.",
            {"{{kind}}": "sum by (kind) (rate(ckptd_restarts_total{DAEMON}[$__rate_interval])) * 3600"},
            "suffix: /h",
            is_stacked=True,
        ),
        lines(
            "Attempts that ended, by cause",
            "Per hour.",
            {"{{cause}}": "sum by (cause) (rate(ckptd_ended_attempts_total{DAEMON}[$__rate_interval])) * 3600"},
            "suffix: /h",
            is_stacked=True,
        ),
        lines(
            "Unsaved GPU hours by partition",
            "Work that would be lost if every job stopped at that time.",
            {"{{partition}}": "sum by (partition) (ckptd_unsaved_gpu_seconds{DAEMON}) / 3600"},
            "suffix: GPU-hours",
            width=24,
            is_stacked=True,
        ),
        bars(
            "Unsaved node hours lost by account",
            "Lower bound, over the time shown, for the accounts with the most lost work.",
            "sum by (account) (increase(ckptd_account_lost_node_seconds_total{DAEMON}[$__range])) / 3600",
            "{{account}}",
            "suffix: node-hours",
        ),
        bars(
            "Redone node hours by account",
            "Lower bound, over the time shown, for the accounts with the most lost work.",
            "sum by (account) (increase(ckptd_account_redone_node_seconds_total{DAEMON}[$__range])) / 3600",
            "{{account}}",
            "suffix: node-hours",
        ),
        rows(
            "Users with the most lost work",
            "In the last 30 days: unsaved and redone work, at least and at most. Nothing is known of the redone work "
            "of the attempts in the last column.",
            """SELECT losses."user" AS "User", losses.account AS "Account", count(*) AS "Attempts",
                   sum(losses.gpu_seconds) / 3600 AS "Unsaved GPU hours",
                   sum(losses.node_seconds) / 3600 AS "Unsaved node hours",
                   sum(coalesce(losses.lost_high_seconds, losses.lost_seconds) * attempts.node_count) / 3600
                   AS "Unsaved node hours, at most",
                   coalesce(sum(losses.redone_low_seconds * attempts.node_count), 0) / 3600 AS "Redone node hours",
                   coalesce(sum(losses.redone_high_seconds * attempts.node_count), 0) / 3600
                   AS "Redone node hours, at most",
                   count(*) - count(losses.redone_low_seconds) AS "Attempts unknown"
                   FROM losses JOIN attempts ON attempts.id = losses.attempt_id
                   WHERE losses.cluster = ${cluster:sqlstring} AND losses.day >= current_date - 30
                   GROUP BY 1, 2 ORDER BY 4 DESC, 5 DESC, 7 DESC LIMIT 20""",
            units={
                "Unsaved GPU hours": "suffix: GPU-hours",
                "Unsaved node hours": "suffix: node-hours",
                "Unsaved node hours, at most": "suffix: node-hours",
                "Redone node hours": "suffix: node-hours",
                "Redone node hours, at most": "suffix: node-hours",
            },
        ),
    ),
    variables=both_variables(),
    since="now-7d",
)
