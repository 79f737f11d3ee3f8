"""OpenAPI 3.1 description of /api/v1. The tests validate every response against it."""

from typing import Any

from ckptd.core.model import CheckpointState, EndCause, JobState, Level, RestartKind, Severity
from ckptd.web.query import LARGEST_LIMIT, LARGEST_OFFSET, LONGEST_FILTER, LONGEST_TEXT, ORDERS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
YES_OR_NO: Schema = {"type": "boolean"}
INSTANT: Schema = {"type": "string", "format": "date-time"}
USER_ID: Schema = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}


def _word(kind: Any) -> Schema:
    return {"type": "string", "enum": [each.value for each in kind]}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


FLAG = _object(
    rule=TEXT,
    severity=_word(Severity),
    cluster=TEXT,
    job_id=_or_null(WHOLE),
    user=TEXT,
    uid=USER_ID,
    run=TEXT,
    opened_at=INSTANT,
    resolved_at=_or_null(INSTANT),
    evidence={"type": "object", "description": "The evidence of the flag, by name."},
    advice={"type": "string", "description": "What to do, with the command to type if there is one."},
    title=TEXT,
    statement={"type": "string", "description": "What is wrong; empty if an earlier version recorded the flag."},
    command=_or_null({"type": "string", "description": "To type, or a line for the batch script."}),
)
RUN_NAME: Schema = {"type": "string", "description": "identifies the run together with cluster and uid"}
SAVES: dict[str, Schema] = {
    "directory": _or_null(TEXT),
    "located_by": _or_null(TEXT),
    "epoch": _or_null(NUMBER),
    "step": _or_null(WHOLE),
    "newest_checkpoint_at": _or_null(INSTANT),
    "newest_checkpoint_age_seconds": _or_null(WHOLE),
    "checkpoints": COUNT,
    "checkpoint_bytes": COUNT,
}
JOB = _object(
    cluster=TEXT,
    job_id=WHOLE,
    array_job_id=_or_null(WHOLE),
    array_task_id=_or_null(WHOLE),
    user=TEXT,
    uid=USER_ID,
    name=TEXT,
    partition=TEXT,
    state=_word(JobState),
    restart_count=COUNT,
    time_left_seconds={**_or_null(COUNT), "description": "null: the limit is unknown"},
    run=RUN_NAME,
    **SAVES,
    flags=_list(TEXT),
    severity=_or_null(_word(Severity)),
)
RUN_ROW = _object(
    cluster=TEXT,
    uid=USER_ID,
    run=RUN_NAME,
    user=TEXT,
    **SAVES,
    jobs=_list(WHOLE),
    states=_list(_word(JobState)),
    restart_count=COUNT,
    time_left_seconds={**_or_null(COUNT), "description": "of the job that ends first; null: the limit is unknown"},
    flags=_list(TEXT),
    severity=_or_null(_word(Severity)),
)
ENDED_RUN = _object(
    cluster=TEXT,
    uid=USER_ID,
    run=TEXT,
    user=TEXT,
    job_id={"type": "integer", "description": "the latest"},
    name=TEXT,
    attempts=COUNT,
    ended_at=INSTANT,
    cause=_or_null(_word(EndCause)),
    epoch=_or_null(NUMBER),
    step=_or_null(WHOLE),
    newest_checkpoint_at=_or_null(INSTANT),
    checkpoints=COUNT,
    checkpoint_bytes=COUNT,
)
ATTEMPT = _object(
    job_id=WHOLE,
    restart_count=COUNT,
    array_job_id=_or_null(WHOLE),
    array_task_id=_or_null(WHOLE),
    kind=_or_null(_word(RestartKind)),
    state=_word(JobState),
    cause=_or_null(_word(EndCause)),
    started_at=INSTANT,
    ended_at=_or_null(INSTANT),
    node_count=COUNT,
    cpu_count=COUNT,
    gpu_count=COUNT,
    resumed_from=_or_null(TEXT),
    saved_at=_or_null(INSTANT),
    lost_seconds=_or_null(WHOLE),
    lost_node_seconds=_or_null(WHOLE),
    lost_cpu_seconds=_or_null(WHOLE),
    lost_gpu_seconds=_or_null(WHOLE),
    is_loss_settled={
        **_or_null(YES_OR_NO),
        "description": "false: not final, a checkpoint of its last minutes may still be found",
    },
)
CHECKPOINT = _object(
    path=TEXT,
    format=TEXT,
    state=_word(CheckpointState),
    reason=_or_null(TEXT),
    level=_word(Level),
    epoch=_or_null(NUMBER),
    step=_or_null(WHOLE),
    is_best=_or_null(YES_OR_NO),
    size_bytes=COUNT,
    modified_at=INSTANT,
    completed_at=_or_null(INSTANT),
    gone_at=_or_null(INSTANT),
    pruned_at=_or_null(INSTANT),
    is_pinned=YES_OR_NO,
)
TIMELINE = _object(
    begins_at=INSTANT,
    ends_at=INSTANT,
    limits=_list(_object(job_id=WHOLE, at=INSTANT)),
    losses=_list(_object(begins_at=INSTANT, ends_at=INSTANT, job_id=WHOLE, is_forecast=YES_OR_NO)),
    expected_checkpoints_at=_list(INSTANT),
)
RUN = _object(
    run=TEXT,
    cluster=TEXT,
    user=TEXT,
    uid=USER_ID,
    located_by=_or_null(TEXT),
    scanned_at=_or_null(INSTANT),
    trouble={
        "type": "array",
        "items": TEXT,
        "description": "why the last scan was incomplete, or why the checkpoint directory is unknown",
    },
    doubts={
        "type": "array",
        "items": TEXT,
        "description": "settings in a comment or .ckptd.toml that have no effect or that the site limits",
    },
    room=_object(free_bytes=_or_null(WHOLE), quota_left_bytes=_or_null(WHOLE), quota_trouble=_or_null(TEXT)),
    attempts={**_list(ATTEMPT), "description": "the latest 500, oldest first"},
    earlier_attempt_count={**COUNT, "description": "number of earlier attempts, all ended"},
    lost=_object(seconds=COUNT, node_seconds=COUNT, cpu_seconds=COUNT, gpu_seconds=COUNT),
    checkpoints={**_list(CHECKPOINT), "description": "the newest 64, oldest first"},
    flags=_list(_reference("Flag")),
    forecast=_object(
        interval_seconds=_or_null(WHOLE),
        save_seconds=_or_null(WHOLE),
        next_checkpoint_at={"type": "object", "additionalProperties": _or_null(INSTANT)},
        interval_spread_seconds=_or_null(WHOLE),
        time_to_first_save_seconds=_or_null(WHOLE),
        size_bytes=_or_null(WHOLE),
        growth_bytes=_or_null(WHOLE),
        seconds_per_epoch=_or_null(WHOLE),
        seconds_per_step=_or_null(NUMBER),
        at_limit={
            "type": "object",
            "description": "by job id",
            "additionalProperties": _object(
                ends_at=INSTANT,
                saves_that_fit=_or_null(WHOLE),
                epochs_that_fit=_or_null(WHOLE),
                steps_that_fit=_or_null(WHOLE),
                will_be_lost_seconds=_or_null(WHOLE),
                goal=_or_null(
                    _object(
                        unit=TEXT,
                        goal=NUMBER,
                        reached=NUMBER,
                        is_declared=YES_OR_NO,
                        fits=WHOLE,
                        is_fitting=YES_OR_NO,
                        done_at=_or_null(INSTANT),
                        more_jobs=_or_null(WHOLE),
                    )
                ),
            ),
        },
        full_at=_or_null(INSTANT),
    ),
    advice=_or_null(
        _object(
            interval_seconds=WHOLE,
            save_seconds=WHOLE,
            mean_time_between_interruptions_seconds=WHOLE,
            is_assumed=YES_OR_NO,
            interruptions_counted=COUNT,
            observed_seconds=WHOLE,
            node_count=COUNT,
        )
    ),
    taken_at=INSTANT,
    timeline=_or_null(TIMELINE),
)
CLUSTER = _object(
    cluster=TEXT,
    is_alive=YES_OR_NO,
    is_slurm_up=YES_OR_NO,
    slurm_trouble={**_or_null(TEXT), "description": "for operators"},
    polled_at=_or_null(INSTANT),
    scanned_at=_or_null(INSTANT),
    heartbeat_at=_or_null(INSTANT),
)
TAKEN: dict[str, Schema] = {
    "taken_at": INSTANT,
    "is_stale": {"type": "boolean", "description": "the database does not answer; this is its last known state"},
}
SCHEMAS = {
    "Job": JOB,
    "Flag": FLAG,
    "Run": RUN,
    "RunRow": RUN_ROW,
    "EndedRun": ENDED_RUN,
    "Error": _object(error=TEXT),
    "Status": _object(viewer=_or_null(TEXT), is_operator=YES_OR_NO, clusters=_list(CLUSTER), **TAKEN),
    "Jobs": _object(jobs=_list(_reference("Job")), total=COUNT, **TAKEN),
    "Flags": _object(flags=_list(_reference("Flag")), total=COUNT, **TAKEN),
    "Runs": _object(runs=_list(_reference("Run"))),
    "RunRows": _object(runs=_list(_reference("RunRow")), total=COUNT, **TAKEN),
    "User": _object(
        user=TEXT,
        runs=_list(_reference("RunRow")),
        jobs=_list(_reference("Job")),
        ended_runs={**_list(_reference("EndedRun")), "description": "the latest 50, newest first"},
        flags=_list(_reference("Flag")),
        checkpoint_bytes=COUNT,
        **TAKEN,
    ),
}


def _parameter(name: str, schema: Schema, text: str = "", *, is_required: bool = False, place: str = "query") -> Schema:
    return {"name": name, "in": place, "required": is_required, "schema": schema, "description": text}


_SOUGHT = {"type": "string", "maxLength": LONGEST_FILTER}
_LIST_PARAMETERS = [
    _parameter("q", _SOUGHT, "Text to find in the name, user, directory, rule or job id."),
    _parameter("user", _SOUGHT),
    _parameter("rule", _SOUGHT, "Only results flagged by this rule."),
    _parameter("severity", _word(Severity), "Only results flagged with this severity or a worse one."),
    _parameter("offset", {"type": "integer", "minimum": 0, "maximum": LARGEST_OFFSET, "default": 0}),
    _parameter("limit", {"type": "integer", "minimum": 1, "maximum": LARGEST_LIMIT, "default": 100}),
]
_JOB_PARAMETERS = [
    *_LIST_PARAMETERS,
    _parameter("partition", _SOUGHT),
    _parameter("state", _word(JobState)),
    _parameter("sort", {"type": "string", "enum": list(ORDERS), "default": "flags"}),
]
_RUN_PARAMETERS = [
    _parameter("cluster", {**_SOUGHT, "minLength": 1}, is_required=True),
    _parameter("uid", USER_ID, is_required=True),
    _parameter(
        "directory",
        {**_SOUGHT, "minLength": 1, "maxLength": LONGEST_TEXT},
        "The `run` of a job or flag.",
        is_required=True,
    ),
]
_JOB_ID = _parameter("job_id", {"type": "integer", "minimum": 1, "maximum": 2**32 - 1}, is_required=True, place="path")
_NAME = _parameter("name", {"type": "string", "minLength": 1}, is_required=True, place="path")


def _get(summary: str, answer: str, parameters: list[Schema], *, is_public: bool = False) -> Schema:
    failures = {
        "400": "a parameter is unknown or wrong",
        "401": "authentication is required or failed",
        "403": "the client is not identified as a user",
        "404": "not found, or not visible to this user",
        "503": "the database does not answer",
    }
    responses: Schema = {"200": {"description": summary, "content": _json(answer)}}
    responses |= {status: {"description": text, "content": _json("Error")} for status, text in failures.items()}
    return {
        "get": {
            "summary": summary,
            "parameters": parameters,
            "responses": responses,
            "security": [{}] if is_public else [{"basic": []}, {}],
        }
    }


def _json(name: str) -> Schema:
    return {"application/json": {"schema": _reference(name)}}


def describe() -> Schema:
    """Return the description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ckptd",
            "version": "1",
            "description": "Jobs, their checkpoints and their flags. Users see their own runs, "
            "operators see all runs. Times are in UTC; absent values are null.",
        },
        "paths": {
            "/api/v1/status": _get("State of the daemon", "Status", [], is_public=True),
            "/api/v1/jobs": _get("Started jobs, ordered by severity of their flags", "Jobs", _JOB_PARAMETERS),
            "/api/v1/runs": _get(
                "Runs with a started job, ordered by severity of their flags", "RunRows", _JOB_PARAMETERS
            ),
            "/api/v1/jobs/{job_id}": _get("Runs that a job belongs or belonged to", "Runs", [_JOB_ID]),
            "/api/v1/flags": _get("Open flags, most severe first", "Flags", _LIST_PARAMETERS),
            "/api/v1/run": _get("All data of one run", "Run", _RUN_PARAMETERS),
            "/api/v1/users/{name}": _get("One user's runs, jobs and open flags", "User", [_NAME]),
        },
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }
