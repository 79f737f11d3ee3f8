"""The dashboard of the daemon itself."""

from grafana.panels import GREEN, RED, YELLOW, Board, Steps, lines, number, prometheus_variables

_DURATION = "sum by (le, step) (rate(ckptd_step_duration_seconds_bucket{DAEMON}[$__rate_interval]))"
_LATE: Steps = [(None, GREEN), (180, YELLOW), (900, RED)]

THE_DAEMON = Board(
    name="daemon",
    title="the daemon itself",
    about="Whether ckptd is alive, in time, and what it costs.",
    panels=(
        number(
            "Last look at the queue",
            "How long ago it was read whole.",
            "time() - min(ckptd_last_poll_timestamp_seconds{DAEMON})",
            "s",
            steps=_LATE,
        ),
        number(
            "Last look at a directory",
            "How long ago any was read.",
            "time() - min(ckptd_last_scan_timestamp_seconds{DAEMON})",
            "s",
            steps=_LATE,
        ),
        number(
            "Scans late by",
            "How long ago the most overdue look was due.",
            "max(ckptd_scan_delay_seconds{DAEMON})",
            "s",
            steps=_LATE,
        ),
        number(
            "Unreadable directories",
            "Nothing is concluded about their runs.",
            "sum(ckptd_unknown_directories{DAEMON})",
            "short",
            steps=[(None, GREEN), (1, YELLOW), (50, RED)],
        ),
        number(
            "Configuration in force",
            "0: the file was refused, the one before it is in force.",
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
            "Last step of pruning",
            "How long ago it was done; none while no policy is configured.",
            "time() - min(ckptd_last_prune_timestamp_seconds{DAEMON})",
            "s",
            width=8,
            link="storage",
        ),
        number(
            "It took",
            "The last step of pruning.",
            "max(ckptd_last_prune_duration_seconds{DAEMON})",
            "s",
            width=8,
            steps=[(None, GREEN), (300, YELLOW)],
        ),
        number(
            "Runs in doubt",
            "Pruning leaves them alone, because it is not known what an act on their files came to.",
            "sum(ckptd_prune_doubtful_runs{DAEMON})",
            "short",
            width=8,
            steps=[(None, GREEN), (1, YELLOW)],
        ),
        lines(
            "Duration of steps, 90 %",
            "poll asks Slurm, look reads directories, decide judges, publish sums up.",
            {"{{step}}": f"histogram_quantile(0.9, {_DURATION})"},
            "s",
        ),
        lines(
            "Trouble",
            "By hour: failed steps, and looks at the queue that failed or could not be believed.",
            {
                "{{step}} failed": "sum by (step) (rate(ckptd_step_failures_total{DAEMON}[$__rate_interval])) * 3600",
                "queue not read": "sum(rate(ckptd_failed_polls_total{DAEMON}[$__rate_interval])) * 3600",
            },
            "suffix: /h",
        ),
        lines(
            "Acts on jobs",
            "By hour and by how they went: signals, holds, summaries and resubmissions that the site allows.",
            {
                "{{action}} {{result}}": "sum by (action, result) (rate(ckptd_acts_total{DAEMON}[$__rate_interval])) "
                "* 3600"
            },
            "suffix: /h",
        ),
        lines(
            "Acts that wait",
            "limit: so many were done within the hour; slurm: it does not answer.",
            {"{{action}}, {{reason}}": "sum by (action, reason) (ckptd_acts_put_off{DAEMON})"},
            "short",
        ),
        lines(
            "Memory",
            "Of the main process.",
            {"{{instance}}": 'process_resident_memory_bytes{job="ckptd",DAEMON}'},
            "bytes",
        ),
        lines(
            "Processor time",
            "Share of one processor, of the main process.",
            {"{{instance}}": 'rate(process_cpu_seconds_total{job="ckptd",DAEMON}[$__rate_interval])'},
            "percentunit",
        ),
        lines(
            "Notices",
            "waiting: until their digest's window ends; due: should go now.",
            {
                "waiting, {{channel}}": "sum by (channel) (ckptd_waiting_notices{DAEMON})",
                "due": "sum(ckptd_due_notices{DAEMON})",
            },
            "short",
        ),
        lines(
            "Messages",
            "By hour and by how that went: deferred and unreachable ones are tried again.",
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
