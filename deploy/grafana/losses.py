"""The dashboard of what was lost: restarts, ends, unsaved work."""

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


def _lost(unit: str, by: str) -> str:
    return f"sum by ({by}) (increase(ckptd_lost_{unit}_seconds_total{{DAEMON}}[$__range])) / 3600"


LOST_WORK = Board(
    name="lost-work",
    title="restarts and lost work",
    about="Work after the newest usable checkpoint of attempts that ended, in hours of nodes, CPUs and GPUs.",
    panels=(
        number(
            "Lost GPU hours",
            "Over the time shown.",
            "sum(increase(ckptd_lost_gpu_seconds_total{DAEMON}[$__range])) / 3600",
            "suffix: GPU-hours",
            width=3,
            steps=[(None, GREEN), (100, YELLOW), (1000, RED)],
        ),
        number(
            "Lost node hours",
            "Over the time shown.",
            "sum(increase(ckptd_lost_node_seconds_total{DAEMON}[$__range])) / 3600",
            "suffix: node-hours",
            width=3,
        ),
        number(
            "Lost CPU hours",
            "Over the time shown.",
            "sum(increase(ckptd_lost_cpu_seconds_total{DAEMON}[$__range])) / 3600",
            "suffix: CPU-hours",
            width=3,
        ),
        number(
            "Redone node hours",
            "Saved work that is computed again, because restarts did not resume from it: at least.",
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
            "Lost GPU hours by cause", "Over the time shown.", _lost("gpu", "cause"), "{{cause}}", "suffix: GPU-hours"
        ),
        bars(
            "Lost GPU hours by partition",
            "Over the time shown.",
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
        rows(
            "Users with the most lost work",
            "In the last 30 days.",
            """SELECT losses."user" AS "User", losses.account AS "Account", count(*) AS "Attempts",
                   sum(losses.gpu_seconds) / 3600 AS "GPU hours", sum(losses.node_seconds) / 3600 AS "Node hours"
                   FROM losses WHERE losses.cluster = ${cluster:sqlstring}
                   AND losses.day >= current_date - 30 GROUP BY 1, 2 ORDER BY 4 DESC, 5 DESC LIMIT 20""",
            units={"GPU hours": "suffix: GPU-hours", "Node hours": "suffix: node-hours"},
        ),
    ),
    variables=[*prometheus_variables(), *database_variables()],
    since="now-7d",
)
