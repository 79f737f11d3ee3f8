"""The dashboards of what was lost and of what is kept: restarts, lost work, storage, pruning."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.panels import (
    GREEN,
    INSTANCE,
    RED,
    YELLOW,
    bars,
    database_variables,
    lines,
    make_dashboard,
    number,
    prometheus_variables,
    rows,
)


def _lost(unit: str, by: str) -> str:
    return f"sum by ({by}) (increase(ckptd_lost_{unit}_seconds_total{{{INSTANCE}}}[$__range])) / 3600"


def lost_work() -> Dashboard:
    """How often runs restart, why attempts end, and what that costs."""
    return make_dashboard(
        "lost-work",
        "restarts and lost work",
        "Work after the newest usable checkpoint of attempts that ended, in hours of nodes, CPUs and GPUs.",
        [
            number(
                "Lost GPU hours",
                "Over the time shown.",
                f"sum(increase(ckptd_lost_gpu_seconds_total{{{INSTANCE}}}[$__range])) / 3600",
                "suffix: GPU h",
                steps=[(None, GREEN), (100, YELLOW), (1000, RED)],
            ),
            number(
                "Lost node hours",
                "Over the time shown.",
                f"sum(increase(ckptd_lost_node_seconds_total{{{INSTANCE}}}[$__range])) / 3600",
                "suffix: node h",
            ),
            number(
                "Lost CPU hours",
                "Over the time shown.",
                f"sum(increase(ckptd_lost_cpu_seconds_total{{{INSTANCE}}}[$__range])) / 3600",
                "suffix: CPU h",
            ),
            number(
                "Restarts",
                "Over the time shown.",
                f"sum(increase(ckptd_restarts_total{{{INSTANCE}}}[$__range]))",
                "short",
            ),
            number(
                "Restarts with nothing to resume",
                "Running runs that restarted without a usable checkpoint.",
                f'sum(ckptd_open_flags{{rule="restarted-without-checkpoint",{INSTANCE}}}) or vector(0)',
                "short",
                steps=[(None, GREEN), (1, RED)],
                link="risk",
            ),
            number(
                "Loops",
                "Runs that restart again and again without getting on.",
                f'sum(ckptd_open_flags{{rule="restart-loop",{INSTANCE}}}) or vector(0)',
                "short",
                steps=[(None, GREEN), (1, RED)],
                link="risk",
            ),
            bars(
                "Lost GPU hours by cause", "Over the time shown.", _lost("gpu", "cause"), "{{cause}}", "suffix: GPU h"
            ),
            bars(
                "Lost GPU hours by partition",
                "Over the time shown.",
                _lost("gpu", "partition"),
                "{{partition}}",
                "suffix: GPU h",
            ),
            lines(
                "Restarts by kind",
                "By hour: requeued by Slurm, the next task of an array, or submitted again.",
                {"{{kind}}": f"sum by (kind) (rate(ckptd_restarts_total{{{INSTANCE}}}[$__rate_interval])) * 3600"},
                "suffix: /h",
                is_stacked=True,
            ),
            lines(
                "Attempts that ended, by cause",
                "By hour.",
                {
                    "{{cause}}": "sum by (cause) (rate(ckptd_ended_attempts_total"
                    f"{{{INSTANCE}}}[$__rate_interval])) * 3600"
                },
                "suffix: /h",
                is_stacked=True,
            ),
            lines(
                "Unsaved GPU hours by partition",
                "What would be lost if every job stopped at that moment.",
                {"{{partition}}": f"sum by (partition) (ckptd_unsaved_gpu_seconds{{{INSTANCE}}}) / 3600"},
                "suffix: GPU h",
                width=24,
                is_stacked=True,
            ),
            rows(
                "Users who lost most",
                "In the last 30 days, from the ledger.",
                """SELECT losses."user" AS "User", losses.account AS "Account", count(*) AS "Attempts",
                   sum(losses.gpu_seconds) / 3600 AS "GPU hours", sum(losses.node_seconds) / 3600 AS "Node hours"
                   FROM losses WHERE losses.cluster = ${cluster:sqlstring}
                   AND losses.day >= current_date - 30 GROUP BY 1, 2 ORDER BY 4 DESC, 5 DESC LIMIT 20""",
                units={"GPU hours": "suffix: GPU h", "Node hours": "suffix: node h"},
            ),
        ],
        variables=[*prometheus_variables(), *database_variables()],
        since="now-7d",
    )


def storage() -> Dashboard:
    """What checkpoints take, what room there is, and what pruning did."""
    return make_dashboard(
        "storage",
        "storage and pruning",
        "What checkpoints take, what room there is, and what pruning did.",
        [
            lines(
                "Size by format",
                "Checkpoints of runs in the queue.",
                {"{{format}}": f"sum by (format) (ckptd_checkpoint_bytes{{{INSTANCE}}})"},
                "bytes",
                is_stacked=True,
            ),
            lines(
                "Written into checkpoints",
                "Size of the checkpoints that jobs completed, by time.",
                {
                    "{{format}}": "sum by (format) (rate(ckptd_completed_checkpoint_bytes_total"
                    f"{{{INSTANCE}}}[$__rate_interval]))"
                },
                "Bps",
                is_stacked=True,
            ),
            bars(
                "Free share of the fullest file system",
                "Of each type, where runs save.",
                f"min by (type) (ckptd_filesystem_free_ratio{{{INSTANCE}}})",
                "{{type}}",
                "percentunit",
                steps=[(None, RED), (0.05, YELLOW), (0.15, GREEN)],
            ),
            lines(
                "Free space of the fullest file system",
                "Of each type, where runs save.",
                {"{{type}}": f"min by (type) (ckptd_filesystem_free_bytes{{{INSTANCE}}})"},
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
        ],
        variables=[*prometheus_variables(), *database_variables()],
        since="now-7d",
    )
