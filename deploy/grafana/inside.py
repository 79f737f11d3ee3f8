"""The dashboards of the daemon itself and of one job."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.panels import (
    GREEN,
    INSTANCE,
    RED,
    YELLOW,
    database_variables,
    lines,
    make_dashboard,
    number,
    prometheus_variables,
    rows,
    sql_lines,
    sql_number,
)

_JOB = "jobs.cluster = ${cluster:sqlstring} AND jobs.job_id = ${job_id:sqlstring}"
_RUN = f"(SELECT jobs.run_id FROM jobs WHERE {_JOB})"


def daemon() -> Dashboard:
    """Whether ckptd itself is well."""
    duration = f"sum by (le, step) (rate(ckptd_step_duration_seconds_bucket{{{INSTANCE}}}[$__rate_interval]))"
    late: list[tuple[float | None, str]] = [(None, GREEN), (180, YELLOW), (900, RED)]
    return make_dashboard(
        "daemon",
        "the daemon itself",
        "Whether ckptd is alive, in time, and what it costs.",
        [
            number(
                "Last look at the queue",
                "How long ago it was read whole.",
                f"time() - min(ckptd_last_poll_timestamp_seconds{{{INSTANCE}}})",
                "s",
                steps=late,
            ),
            number(
                "Last look at a directory",
                "How long ago any was read.",
                f"time() - min(ckptd_last_scan_timestamp_seconds{{{INSTANCE}}})",
                "s",
                steps=late,
            ),
            number(
                "Scans late by",
                "How long ago the most overdue look was due.",
                f"max(ckptd_scan_delay_seconds{{{INSTANCE}}})",
                "s",
                steps=late,
            ),
            number(
                "Unreadable directories",
                "Nothing is concluded about their runs.",
                f"sum(ckptd_unknown_directories{{{INSTANCE}}})",
                "short",
                steps=[(None, GREEN), (1, YELLOW), (50, RED)],
            ),
            number(
                "Configuration in force",
                "0: the file was refused, the one before it is in force.",
                f"min(ckptd_config_last_reload_successful{{{INSTANCE}}})",
                "short",
                steps=[(None, RED), (1, GREEN)],
            ),
            number(
                "Running since",
                "When the daemon started.",
                f"min(ckptd_start_timestamp_seconds{{{INSTANCE}}}) * 1000",
                "dateTimeFromNow",
            ),
            lines(
                "Duration of steps, 90 %",
                "poll asks Slurm, look reads directories, decide judges, publish sums up.",
                {"{{step}}": f"histogram_quantile(0.9, {duration})"},
                "s",
            ),
            lines(
                "Trouble",
                "By hour: failed steps, and looks at the queue that failed or could not be believed.",
                {
                    "{{step}} failed": "sum by (step) (rate(ckptd_step_failures_total"
                    f"{{{INSTANCE}}}[$__rate_interval])) * 3600",
                    "queue not read": f"sum(rate(ckptd_failed_polls_total{{{INSTANCE}}}[$__rate_interval])) * 3600",
                },
                "suffix: /h",
            ),
            lines(
                "Memory",
                "Of the main process.",
                {"{{instance}}": f'process_resident_memory_bytes{{job="ckptd",{INSTANCE}}}'},
                "bytes",
                width=8,
            ),
            lines(
                "Processor time",
                "Share of one processor, of the main process.",
                {"{{instance}}": f'rate(process_cpu_seconds_total{{job="ckptd",{INSTANCE}}}[$__rate_interval])'},
                "percentunit",
                width=8,
            ),
            lines(
                "Notices",
                "waiting: until their digest's window ends; due: should go now.",
                {
                    "waiting, {{channel}}": f"sum by (channel) (ckptd_waiting_notices{{{INSTANCE}}})",
                    "due": f"sum(ckptd_due_notices{{{INSTANCE}}})",
                },
                "short",
                width=8,
            ),
        ],
        variables=prometheus_variables(),
        since="now-6h",
    )


def job() -> Dashboard:
    """One job and its run, from the record."""
    return make_dashboard(
        "job",
        "one job in detail",
        "The run of one job: attempts, checkpoints, flags, lost work. Needs PostgreSQL.",
        [
            rows(
                "Job",
                "As it was last seen.",
                f"""SELECT jobs.job_id AS "Job", jobs.name AS "Name", jobs."user" AS "User",
                    jobs.partition AS "Partition",
                    jobs.state AS "State", jobs.restart_count AS "Restarts", runs.directory AS "Directory",
                    runs.located_by AS "Found by" FROM jobs JOIN runs ON runs.id = jobs.run_id WHERE {_JOB}
                    ORDER BY jobs.first_seen_at DESC LIMIT 5""",
            ),
            sql_number(
                "Time left",
                "Until the limit, as of now.",
                f"""SELECT greatest(extract(epoch FROM jobs.ends_at - now()), 0) AS "left" FROM jobs WHERE {_JOB}
                    ORDER BY jobs.first_seen_at DESC LIMIT 1""",
                "s",
                steps=[(None, RED), (1800, YELLOW), (7200, GREEN)],
            ),
            sql_number(
                "Age of the newest checkpoint",
                "Of complete ones that are on disk.",
                f"""SELECT extract(epoch FROM now() - max(checkpoints.completed_at)) AS "age" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.gone_at IS NULL
                    AND checkpoints.state = 'complete'""",
                "s",
                steps=[(None, GREEN), (14400, YELLOW), (86400, RED)],
            ),
            sql_number(
                "Attempts",
                "Executions of all jobs of the run.",
                f'SELECT count(*) AS "attempts" FROM attempts WHERE attempts.run_id IN {_RUN}',
                "short",
            ),
            sql_number(
                "Open flags",
                "Of the run.",
                f"""SELECT count(*) AS "flags" FROM flags WHERE flags.run_id IN {_RUN} AND flags.resolved_at IS NULL""",
                "short",
                steps=[(None, GREEN), (1, YELLOW)],
            ),
            sql_number(
                "Size on disk",
                "Of all checkpoints of the run.",
                f"""SELECT coalesce(sum(checkpoints.size_bytes), 0) AS "size" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.gone_at IS NULL""",
                "bytes",
            ),
            sql_number(
                "Lost GPU hours",
                "Of all ended attempts of the run.",
                f"""SELECT coalesce(sum(losses.gpu_seconds), 0) / 3600 AS "lost" FROM losses
                    JOIN attempts ON attempts.id = losses.attempt_id WHERE attempts.run_id IN {_RUN}""",
                "suffix: GPU h",
                steps=[(None, GREEN), (1, YELLOW), (100, RED)],
            ),
            sql_lines(
                "Step saved",
                "A fall means that an attempt did not continue where the one before it had saved.",
                f"""SELECT checkpoints.completed_at AS "time", checkpoints.step AS "step" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.completed_at IS NOT NULL
                    AND checkpoints.step IS NOT NULL AND $__timeFilter(checkpoints.completed_at) ORDER BY 1""",
                "short",
            ),
            sql_lines(
                "Size of checkpoints",
                "One point for each save.",
                f"""SELECT checkpoints.completed_at AS "time", checkpoints.size_bytes AS "size" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.completed_at IS NOT NULL
                    AND $__timeFilter(checkpoints.completed_at) ORDER BY 1""",
                "bytes",
            ),
            rows(
                "Attempts",
                "Newest first; what was lost is known once an attempt has ended.",
                f"""SELECT jobs.job_id AS "Job", attempts.restart_count AS "Restart", attempts.kind AS "Kind",
                    attempts.state AS "State", attempts.cause AS "Cause", attempts.started_at AS "Started",
                    attempts.ended_at AS "Ended", attempts.resumed_from AS "Resumed from",
                    losses.lost_seconds AS "Lost" FROM attempts JOIN jobs ON jobs.id = attempts.job_row
                    LEFT JOIN losses ON losses.attempt_id = attempts.id WHERE attempts.run_id IN {_RUN}
                    ORDER BY attempts.started_at DESC LIMIT 100""",
                units={"Lost": "s"},
            ),
            rows(
                "Checkpoints",
                "Newest first, also those that are gone.",
                f"""SELECT checkpoints.path AS "Path", checkpoints.format AS "Format", checkpoints.state AS "State",
                    checkpoints.reason AS "Reason", checkpoints.epoch AS "Epoch", checkpoints.step AS "Step",
                    checkpoints.size_bytes AS "Size", checkpoints.completed_at AS "Complete",
                    checkpoints.gone_at AS "Gone", checkpoints.pruned_at AS "Pruned" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} ORDER BY checkpoints.first_seen_at DESC LIMIT 200""",
                units={"Size": "bytes"},
            ),
            rows(
                "Flags",
                "What was found wrong with the run, newest first.",
                f"""SELECT flags.rule AS "Rule", flags.severity AS "Severity", flags.job_id AS "Job",
                    flags.opened_at AS "Opened", flags.resolved_at AS "Resolved", flags.advice AS "Advice" FROM flags
                    WHERE flags.run_id IN {_RUN} ORDER BY flags.opened_at DESC LIMIT 100""",
            ),
        ],
        variables=[*database_variables(), dashboard.TextBoxVariable("job_id").label("Job").default_value("1")],
        since="now-7d",
    )
