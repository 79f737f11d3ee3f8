"""The dashboard of one job and its run, from the record."""

from grafana_foundation_sdk.builders import dashboard

from ckptd.core.model import CheckpointState
from ckptd.core.rows.word_codes import STATE_CODES
from grafana.panels import GREEN, RED, YELLOW, Board, database_variables, rows, sql_lines, sql_number

_JOB = "jobs.cluster = ${cluster:sqlstring} AND jobs.job_id = ${job_id:sqlstring}"
_STATE = "CASE checkpoints.state {} END".format(
    " ".join(f"WHEN {code} THEN '{state}'" for state, code in STATE_CODES.items())
)
_RUN = f"(SELECT jobs.run_id FROM jobs WHERE {_JOB})"

JOB = Board(
    name="job",
    title="one job in detail",
    about="The run of one job: attempts, checkpoints, flags, lost work. Needs PostgreSQL.",
    panels=(
        rows(
            "Job",
            "As of the last poll.",
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
            "Of complete checkpoints on disk.",
            f"""SELECT extract(epoch FROM now() - max(checkpoints.completed_at)) AS "age" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.deleted_at IS NULL
                    AND checkpoints.state = {STATE_CODES[CheckpointState.COMPLETE]}""",
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
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.deleted_at IS NULL""",
            "bytes",
        ),
        sql_number(
            "Lost GPU hours",
            "Of all ended attempts of the run.",
            f"""SELECT coalesce(sum(losses.gpu_seconds), 0) / 3600 AS "lost" FROM losses
                    JOIN attempts ON attempts.id = losses.attempt_id WHERE attempts.run_id IN {_RUN}""",
            "suffix: GPU-hours",
            steps=[(None, GREEN), (1, YELLOW), (100, RED)],
        ),
        sql_lines(
            "Step saved",
            "A drop means that an attempt did not resume where the previous one had saved.",
            f"""SELECT checkpoints.completed_at AS "time", checkpoints.step AS "step" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.completed_at IS NOT NULL
                    AND checkpoints.step IS NOT NULL AND $__timeFilter(checkpoints.completed_at) ORDER BY 1""",
            "short",
        ),
        sql_lines(
            "Size of checkpoints",
            "One point per checkpoint.",
            f"""SELECT checkpoints.completed_at AS "time", checkpoints.size_bytes AS "size" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} AND checkpoints.completed_at IS NOT NULL
                    AND $__timeFilter(checkpoints.completed_at) ORDER BY 1""",
            "bytes",
        ),
        rows(
            "Attempts",
            "Newest first; lost work is known after the end of an attempt.",
            f"""SELECT jobs.job_id AS "Job", attempts.restart_count AS "Restart", attempts.kind AS "Kind",
                    attempts.state AS "State", attempts.cause AS "Cause", attempts.started_at AS "Started",
                    attempts.ended_at AS "Ended", attempts.resumed_from AS "Probably resumed from",
                    losses.lost_seconds AS "Lost" FROM attempts JOIN jobs ON jobs.id = attempts.job_row
                    LEFT JOIN losses ON losses.attempt_id = attempts.id WHERE attempts.run_id IN {_RUN}
                    ORDER BY attempts.started_at DESC LIMIT 100""",
            units={"Lost": "s"},
        ),
        rows(
            "Checkpoints",
            "Newest first, including deleted ones.",
            f"""SELECT checkpoints.path AS "Path", checkpoints.format AS "Format", {_STATE} AS "State",
                    checkpoints.reason AS "Reason", checkpoints.epoch AS "Epoch", checkpoints.step AS "Step",
                    checkpoints.size_bytes AS "Size", checkpoints.completed_at AS "Complete",
                    checkpoints.deleted_at AS "Deleted", checkpoints.pruned_at AS "Pruned" FROM checkpoints
                    WHERE checkpoints.run_id IN {_RUN} ORDER BY checkpoints.first_seen_at DESC LIMIT 200""",
            units={"Size": "bytes"},
        ),
        rows(
            "Flags",
            "Flags of the run, newest first; `ckptd show` and the status page say what to do about them.",
            f"""SELECT flags.rule AS "Rule", flags.severity AS "Severity", flags.job_id AS "Job",
                    flags.opened_at AS "Opened", flags.resolved_at AS "Resolved", flags.evidence AS "Evidence"
                    FROM flags
                    WHERE flags.run_id IN {_RUN} ORDER BY flags.opened_at DESC LIMIT 100""",
        ),
    ),
    variables=[*database_variables(), dashboard.TextBoxVariable("job_id").label("Job").default_value("1")],
    since="now-7d",
)
