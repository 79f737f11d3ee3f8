"""The dashboards that show the fleet: at a glance, its checkpoints, its time limits."""

from grafana.panels import GREEN, RED, YELLOW, Board, bars, lines, number, prometheus_variables

OVERVIEW = Board(
    name="overview",
    title="fleet overview",
    about="Jobs, runs and open flags of the cluster at a glance.",
    panels=(
        number(
            "Slurm answers",
            "0 while Slurm does not answer; ckptd then evaluates no rules.",
            "min(ckptd_slurm_up{DAEMON})",
            "short",
            steps=[(None, RED), (1, GREEN)],
            link="daemon",
        ),
        number("Running jobs", "Jobs that run now.", "sum(ckptd_running_jobs{DAEMON})", "short"),
        number("GPUs in use", "GPUs of running jobs.", "sum(ckptd_running_gpus{DAEMON})", "short"),
        number(
            "Critical flags",
            "Open flags of severity critical: work is lost or about to be lost.",
            'sum(ckptd_open_flags{severity="critical",DAEMON}) or vector(0)',
            "short",
            steps=[(None, GREEN), (1, YELLOW), (20, RED)],
            link="risk",
        ),
        number(
            "Runs with a complete checkpoint",
            "Share of running runs whose newest finished checkpoint is complete.",
            'sum(ckptd_running_runs{newest="complete",DAEMON}) / sum(ckptd_running_runs{DAEMON})',
            "percentunit",
            steps=[(None, RED), (0.5, YELLOW), (0.8, GREEN)],
            link="checkpoints",
        ),
        number(
            "Unsaved GPU hours",
            "Work that would be lost if every job stopped now.",
            "sum(ckptd_unsaved_gpu_seconds{DAEMON}) / 3600",
            "suffix: GPU-hours",
            link="lost-work",
        ),
        lines(
            "Jobs by state",
            "Slurm's states; waiting tasks of arrays count.",
            {"{{state}}": "sum by (state) (ckptd_jobs{DAEMON})"},
            "short",
            is_stacked=True,
        ),
        lines(
            "Open flags by rule",
            "Problems that ckptd currently reports.",
            {"{{rule}}": "sum by (rule) (ckptd_open_flags{DAEMON})"},
            "short",
            is_stacked=True,
        ),
        lines(
            "Running runs by their newest checkpoint",
            "none: no checkpoint yet; unknown: the directory could not be read.",
            {"{{newest}}": "sum by (newest) (ckptd_running_runs{DAEMON})"},
            "short",
            is_stacked=True,
        ),
        bars(
            "Running jobs by partition",
            "As of now.",
            "sort_desc(sum by (partition) (ckptd_running_jobs{DAEMON}))",
            "{{partition}}",
            "short",
        ),
    ),
    variables=prometheus_variables(),
)

_AGE = "sum by (le) (ckptd_checkpoint_age_seconds_bucket{DAEMON})"
_SAVE = "sum by (le) (increase(ckptd_checkpoint_save_duration_seconds_bucket{DAEMON}[$__range]))"
_INTERVAL = "sum by (le) (increase(ckptd_checkpoint_interval_seconds_bucket{DAEMON}[$__range]))"

CHECKPOINTS = Board(
    name="checkpoints",
    title="checkpoint health",
    about="Whether and how often runs save checkpoints, how long that takes, and whether the checkpoints are valid.",
    panels=(
        lines(
            "Age of the newest checkpoint",
            "Of runs with a running job.",
            {"median": f"histogram_quantile(0.5, {_AGE})", "90 %": f"histogram_quantile(0.9, {_AGE})"},
            "s",
            steps=[(None, GREEN), (28800, YELLOW), (86400, RED)],
        ),
        lines(
            "Checkpoints completed and damaged",
            "Per hour.",
            {
                "completed": "sum(rate(ckptd_completed_checkpoints_total{DAEMON}[$__rate_interval])) * 3600",
                "damaged": "sum(rate(ckptd_damaged_checkpoints_total{DAEMON}[$__rate_interval])) * 3600",
            },
            "suffix: /h",
        ),
        lines(
            "Save duration",
            "From the first to the last observed write of a checkpoint, over the time shown.",
            {"median": f"histogram_quantile(0.5, {_SAVE})", "90 %": f"histogram_quantile(0.9, {_SAVE})"},
            "s",
        ),
        lines(
            "Checkpoint interval",
            "Within one attempt, over the time shown.",
            {"median": f"histogram_quantile(0.5, {_INTERVAL})", "90 %": f"histogram_quantile(0.9, {_INTERVAL})"},
            "s",
        ),
        bars(
            "Checkpoints by format",
            "Of runs in the queue, as of now.",
            "sort_desc(sum by (format) (ckptd_checkpoints{DAEMON}))",
            "{{format}}",
            "short",
        ),
        bars(
            "Checkpoints that are not complete",
            "Damaged, being written, or unreadable, as of now.",
            'sort_desc(sum by (format, state) (ckptd_checkpoints{state!="complete",DAEMON}))',
            "{{format}} {{state}}",
            "short",
            steps=[(None, YELLOW), (10, RED)],
        ),
        lines(
            "How checkpoint directories were found",
            "none: not found; ckptd cannot evaluate the checkpoints of such runs.",
            {"{{located_by}}": "sum by (located_by) (ckptd_runs{DAEMON})"},
            "short",
            width=24,
            is_stacked=True,
        ),
    ),
    variables=prometheus_variables(),
)

_LEFT = "sum by (le) (ckptd_time_left_seconds_bucket{DAEMON})"

RISK = Board(
    name="risk",
    title="time limits and risk",
    about="How much time jobs have left, and what will be lost at their limits.",
    panels=(
        number(
            "Jobs at risk",
            "Jobs that will lose work if they run until their time limits.",
            'sum(ckptd_open_flags{rule="at-risk",DAEMON}) or vector(0)',
            "short",
            steps=[(None, GREEN), (1, YELLOW), (20, RED)],
        ),
        number(
            "Less than 1 h left",
            "Running jobs that end within the hour.",
            'sum(ckptd_time_left_seconds_bucket{le="3600",DAEMON})',
            "short",
        ),
        number(
            "No time limit",
            "Running jobs without a time limit.",
            "sum(ckptd_running_jobs_without_limit{DAEMON})",
            "short",
        ),
        number(
            "No checkpoint yet",
            "Running runs without any checkpoint.",
            'sum(ckptd_running_runs{newest="none",DAEMON})',
            "short",
            steps=[(None, GREEN), (10, YELLOW)],
            link="checkpoints",
        ),
        number(
            "Newest damaged",
            "Running runs whose newest checkpoint is damaged.",
            'sum(ckptd_running_runs{newest="damaged",DAEMON})',
            "short",
            steps=[(None, GREEN), (1, YELLOW), (10, RED)],
            link="checkpoints",
        ),
        number(
            "Unsaved node hours",
            "Work that would be lost if every job stopped now.",
            "sum(ckptd_unsaved_node_seconds{DAEMON}) / 3600",
            "suffix: node-hours",
        ),
        lines(
            "Time left of running jobs",
            "10 % of the jobs have less time left than the lowest line.",
            {"10 %": f"histogram_quantile(0.1, {_LEFT})", "median": f"histogram_quantile(0.5, {_LEFT})"},
            "s",
        ),
        lines(
            "Flags that open and resolve",
            "Per hour; if more flags open than resolve, problems are increasing.",
            {
                "opened": "sum(rate(ckptd_opened_flags_total{DAEMON}[$__rate_interval])) * 3600",
                "resolved": "sum(rate(ckptd_resolved_flags_total{DAEMON}[$__rate_interval])) * 3600",
            },
            "suffix: /h",
        ),
        bars(
            "Open flags by rule and severity",
            "As of now.",
            "sort_desc(sum by (rule, severity) (ckptd_open_flags{DAEMON}))",
            "{{rule}} {{severity}}",
            "short",
            width=24,
            steps=[(None, YELLOW), (20, RED)],
        ),
    ),
    variables=prometheus_variables(),
)
