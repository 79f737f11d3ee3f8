"""The dashboard of the daemon itself."""

from grafana.panels import GREEN, RED, YELLOW, Board, Steps, lines, number, prometheus_variables

_DURATION = "sum by (le, step) (rate(ckptd_step_duration_seconds_bucket{DAEMON}[$__rate_interval]))"
_LATE: Steps = [(None, GREEN), (180, YELLOW), (900, RED)]

THE_DAEMON = Board(
    name="daemon",
    title="the daemon",
    about="Whether ckptd is running and on time, and the resources it uses.",
    panels=(
        number(
            "Last poll of the queue",
            "Time since the last successful poll.",
            "time() - min(ckptd_last_poll_timestamp_seconds{DAEMON})",
            "s",
            steps=_LATE,
        ),
        number(
            "Last directory scan",
            "Time since the last scan of any directory.",
            "time() - min(ckptd_last_scan_timestamp_seconds{DAEMON})",
            "s",
            steps=_LATE,
        ),
        number(
            "Delay of directory scans",
            "How long the most overdue scan is overdue; 0 if none is.",
            "max(ckptd_scan_delay_seconds{DAEMON})",
            "s",
            steps=_LATE,
        ),
        number(
            "Unreadable directories",
            "Checkpoint directories that ckptd cannot read or find; it does not evaluate their runs.",
            "sum(ckptd_unknown_directories{DAEMON})",
            "short",
            steps=[(None, GREEN), (1, YELLOW), (50, RED)],
        ),
        number(
            "Last configuration reload",
            "1: succeeded. 0: failed, and the previous configuration is used.",
            "min(ckptd_config_last_reload_successful{DAEMON})",
            "short",
            steps=[(None, RED), (1, GREEN)],
        ),
        number(
            "Running since",
            "When the daemon started.",
            "min(ckptd_start_timestamp_seconds{DAEMON}) * 1000",
            "dateTimeFromNow",
        ),
        number(
            "Last pruning step",
            "Time since the last pruning step; no value if no retention policy is configured.",
            "time() - min(ckptd_last_prune_timestamp_seconds{DAEMON})",
            "s",
            width=8,
            link="storage",
        ),
        number(
            "Duration of the last pruning step",
            "Time that the last pruning step took.",
            "max(ckptd_last_prune_duration_seconds{DAEMON})",
            "s",
            width=8,
            steps=[(None, GREEN), (300, YELLOW)],
        ),
        number(
            "Runs that pruning skips",
            "The outcome of an earlier removal in these runs is unknown.",
            "sum(ckptd_prune_unconfirmed_runs{DAEMON})",
            "short",
            width=8,
            steps=[(None, GREEN), (1, YELLOW)],
        ),
        lines(
            "Step duration, 90th percentile",
            "poll queries Slurm, scan-directories scans, decide evaluates the rules, publish computes the metrics.",
            {"{{step}}": f"histogram_quantile(0.9, {_DURATION})"},
            "s",
        ),
        lines(
            "Failed steps and polls",
            "Per hour. A poll also fails if it returns implausible results; the log has the errors.",
            {
                "{{step}} failed": "sum by (step) (rate(ckptd_step_failures_total{DAEMON}[$__rate_interval])) * 3600",
                "poll of the queue failed": "sum(rate(ckptd_failed_polls_total{DAEMON}[$__rate_interval])) * 3600",
            },
            "suffix: /h",
        ),
        lines(
            "Actions on jobs",
            "Signals, holds, summaries and resubmissions per hour, by result.",
            {
                "{{action}} {{result}}": "sum by (action, result) "
                "(rate(ckptd_job_actions_total{DAEMON}[$__rate_interval])) * 3600"
            },
            "suffix: /h",
        ),
        lines(
            "Deferred actions",
            "Actions on jobs that wait. limit: actions.max_per_hour is reached; slurm: Slurm does not answer.",
            {"{{action}}, {{reason}}": "sum by (action, reason) (ckptd_deferred_job_actions{DAEMON})"},
            "short",
        ),
        lines(
            "Memory",
            "Resident memory of the main process.",
            {"{{instance}}": 'process_resident_memory_bytes{job="ckptd",DAEMON}'},
            "bytes",
        ),
        lines(
            "Processor time",
            "CPU time of the main process, as a share of one CPU.",
            {"{{instance}}": 'rate(process_cpu_seconds_total{job="ckptd",DAEMON}[$__rate_interval])'},
            "percentunit",
        ),
        lines(
            "Notices",
            "Unsent notices. waiting: collected until their digest is due; due: should be sent now.",
            {
                "waiting, {{channel}}": "sum by (channel) (ckptd_waiting_notices{DAEMON})",
                "due": "sum(ckptd_due_notices{DAEMON})",
            },
            "short",
        ),
        lines(
            "Messages",
            "Per hour and by result; deferred and unreachable ones are retried.",
            {
                "{{channel}} {{result}}": "sum by (channel, result) "
                "(rate(ckptd_messages_total{DAEMON}[$__rate_interval])) * 3600"
            },
            "suffix: /h",
        ),
    ),
    variables=prometheus_variables(),
    since="now-6h",
)
