"""The dashboards that show the fleet: at a glance, its checkpoints, its time limits."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.panels import GREEN, INSTANCE, RED, YELLOW, bars, lines, make_dashboard, number, prometheus_variables


def overview() -> Dashboard:
    """The first look: is all well, and if not, where."""
    return make_dashboard(
        "overview",
        "fleet overview",
        "Jobs, runs and open flags of the cluster at a glance.",
        [
            number(
                "Slurm answers",
                "0 while squeue does not answer; nothing is judged then.",
                f"min(ckptd_slurm_up{{{INSTANCE}}})",
                "short",
                steps=[(None, RED), (1, GREEN)],
                link="daemon",
            ),
            number("Running jobs", "Jobs that run now.", f"sum(ckptd_running_jobs{{{INSTANCE}}})", "short"),
            number("GPUs at work", "GPUs of running jobs.", f"sum(ckptd_running_gpus{{{INSTANCE}}})", "short"),
            number(
                "Critical flags",
                "Open flags that are critical: work is being lost, or will be.",
                f'sum(ckptd_open_flags{{severity="critical",{INSTANCE}}}) or vector(0)',
                "short",
                steps=[(None, GREEN), (1, YELLOW), (20, RED)],
                link="risk",
            ),
            number(
                "Runs with a good checkpoint",
                "Share of running runs whose newest settled checkpoint is complete.",
                f'sum(ckptd_running_runs{{newest="complete",{INSTANCE}}}) / sum(ckptd_running_runs{{{INSTANCE}}})',
                "percentunit",
                steps=[(None, RED), (0.5, YELLOW), (0.8, GREEN)],
                link="checkpoints",
            ),
            number(
                "Unsaved GPU hours",
                "What would be lost if every job stopped now.",
                f"sum(ckptd_unsaved_gpu_seconds{{{INSTANCE}}}) / 3600",
                "suffix: GPU h",
                link="lost-work",
            ),
            lines(
                "Jobs by state",
                "Slurm's states; waiting tasks of arrays count.",
                {"{{state}}": f"sum by (state) (ckptd_jobs{{{INSTANCE}}})"},
                "short",
                is_stacked=True,
            ),
            lines(
                "Open flags by rule",
                "What ckptd finds wrong with runs now.",
                {"{{rule}}": f"sum by (rule) (ckptd_open_flags{{{INSTANCE}}})"},
                "short",
                is_stacked=True,
            ),
            lines(
                "Running runs by their newest checkpoint",
                "none: nothing saved yet; unknown: the directory could not be read.",
                {"{{newest}}": f"sum by (newest) (ckptd_running_runs{{{INSTANCE}}})"},
                "short",
                is_stacked=True,
            ),
            bars(
                "Running jobs by partition",
                "As of now.",
                f"sort_desc(sum by (partition) (ckptd_running_jobs{{{INSTANCE}}}))",
                "{{partition}}",
                "short",
            ),
        ],
        variables=prometheus_variables(),
    )


def checkpoints() -> Dashboard:
    """Whether runs save, how often, how fast, and whether what they save is whole."""
    age = f"sum by (le) (ckptd_checkpoint_age_seconds_bucket{{{INSTANCE}}})"
    save = f"sum by (le) (increase(ckptd_checkpoint_save_duration_seconds_bucket{{{INSTANCE}}}[$__range]))"
    interval = f"sum by (le) (increase(ckptd_checkpoint_interval_seconds_bucket{{{INSTANCE}}}[$__range]))"
    return make_dashboard(
        "checkpoints",
        "checkpoint health",
        "Whether runs save, how often, how fast, and whether it is whole.",
        [
            lines(
                "Age of the newest checkpoint",
                "Of runs with a running job; half of them have a younger one than the median.",
                {
                    "median": f"histogram_quantile(0.5, {age})",
                    "90 %": f"histogram_quantile(0.9, {age})",
                },
                "s",
                steps=[(None, GREEN), (28800, YELLOW), (86400, RED)],
            ),
            lines(
                "Checkpoints completed and damaged",
                "By hour, of those that jobs were seen writing.",
                {
                    "completed": f"sum(rate(ckptd_completed_checkpoints_total{{{INSTANCE}}}[$__rate_interval])) * 3600",
                    "damaged": f"sum(rate(ckptd_damaged_checkpoints_total{{{INSTANCE}}}[$__rate_interval])) * 3600",
                },
                "suffix: /h",
            ),
            lines(
                "Time that a save takes",
                "From its first byte that was seen to its last, over the time shown.",
                {
                    "median": f"histogram_quantile(0.5, {save})",
                    "90 %": f"histogram_quantile(0.9, {save})",
                },
                "s",
            ),
            lines(
                "Interval between saves",
                "Within one attempt, over the time shown.",
                {
                    "median": f"histogram_quantile(0.5, {interval})",
                    "90 %": f"histogram_quantile(0.9, {interval})",
                },
                "s",
            ),
            bars(
                "Checkpoints by format",
                "Of runs in the queue, as of now.",
                f"sort_desc(sum by (format) (ckptd_checkpoints{{{INSTANCE}}}))",
                "{{format}}",
                "short",
            ),
            bars(
                "Checkpoints that are not complete",
                "Damaged, being written, or not readable, as of now.",
                f'sort_desc(sum by (format, state) (ckptd_checkpoints{{state!="complete",{INSTANCE}}}))',
                "{{format}} {{state}}",
                "short",
                steps=[(None, YELLOW), (10, RED)],
            ),
            lines(
                "How checkpoint directories were found",
                "none: nowhere; such runs cannot be judged by what they save.",
                {"{{located_by}}": f"sum by (located_by) (ckptd_runs{{{INSTANCE}}})"},
                "short",
                width=24,
                is_stacked=True,
            ),
        ],
        variables=prometheus_variables(),
    )


def risk() -> Dashboard:
    """Who will run into a limit, and which flags came and went."""
    left = f"sum by (le) (ckptd_time_left_seconds_bucket{{{INSTANCE}}})"
    return make_dashboard(
        "risk",
        "time limits and risk",
        "How much time jobs have left, and what will be lost at their limits.",
        [
            number(
                "Jobs at risk",
                "Jobs that will lose work at their time limits.",
                f'sum(ckptd_open_flags{{rule="at-risk",{INSTANCE}}}) or vector(0)',
                "short",
                steps=[(None, GREEN), (1, YELLOW), (20, RED)],
            ),
            number(
                "Less than 1 h left",
                "Running jobs that end within the hour.",
                f'sum(ckptd_time_left_seconds_bucket{{le="3600",{INSTANCE}}})',
                "short",
            ),
            number(
                "No time limit",
                "Running jobs without a time limit.",
                f"sum(ckptd_unlimited_jobs{{{INSTANCE}}})",
                "short",
            ),
            number(
                "Nothing saved yet",
                "Running runs without any checkpoint.",
                f'sum(ckptd_running_runs{{newest="none",{INSTANCE}}})',
                "short",
                steps=[(None, GREEN), (10, YELLOW)],
                link="checkpoints",
            ),
            number(
                "Newest damaged",
                "Running runs whose newest checkpoint is damaged.",
                f'sum(ckptd_running_runs{{newest="damaged",{INSTANCE}}})',
                "short",
                steps=[(None, GREEN), (1, YELLOW), (10, RED)],
                link="checkpoints",
            ),
            number(
                "Unsaved node hours",
                "What would be lost if every job stopped now.",
                f"sum(ckptd_unsaved_node_seconds{{{INSTANCE}}}) / 3600",
                "suffix: node h",
            ),
            lines(
                "Time left of running jobs",
                "A tenth of the jobs has less than the lowest line.",
                {
                    "10 %": f"histogram_quantile(0.1, {left})",
                    "median": f"histogram_quantile(0.5, {left})",
                },
                "s",
            ),
            lines(
                "Flags that open and resolve",
                "By hour; more opening than resolving is trouble that grows.",
                {
                    "opened": f"sum(rate(ckptd_opened_flags_total{{{INSTANCE}}}[$__rate_interval])) * 3600",
                    "resolved": f"sum(rate(ckptd_resolved_flags_total{{{INSTANCE}}}[$__rate_interval])) * 3600",
                },
                "suffix: /h",
            ),
            bars(
                "Open flags by rule and severity",
                "As of now.",
                f"sort_desc(sum by (rule, severity) (ckptd_open_flags{{{INSTANCE}}}))",
                "{{rule}} {{severity}}",
                "short",
                width=24,
                steps=[(None, YELLOW), (20, RED)],
            ),
        ],
        variables=prometheus_variables(),
    )
