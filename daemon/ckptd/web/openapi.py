"""OpenAPI 3.1 description of /api/v1, generated from its documents' types. Tests validate every response with it."""

import functools
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from ckptd.core.model import JobState, Severity
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.present.responses import api_documents, lost_work_documents, run_documents
from ckptd.web.lost_work_reports import Period
from ckptd.web.query import LARGEST_LIMIT, LARGEST_OFFSET, LONGEST_FILTER, LONGEST_TEXT, ORDERS

Schema = dict[str, Any]

USER_ID: Schema = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
ANSWERS = (
    api_documents.StatusDocument,
    api_documents.JobsDocument,
    api_documents.RunRowsDocument,
    api_documents.RunsDocument,
    run_documents.RunDocument,
    api_documents.FlagsDocument,
    api_documents.UserDocument,
    lost_work_documents.LostWorkReportDocument,
    api_documents.ErrorDocument,
)


class _SchemaGenerator(GenerateJsonSchema):
    """Names schemas without the suffix of their types, and fields without a title that repeats their name."""

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).removesuffix("Document")

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's own signature
        return False


@functools.cache
def describe_schemas() -> Schema:
    """Return the schema of every type that an answer consists of, by name."""
    inputs = [(answer, "serialization", TypeAdapter(answer)) for answer in ANSWERS]
    _, schemas = TypeAdapter.json_schemas(
        inputs,  # type: ignore[arg-type]
        ref_template="#/components/schemas/{model}",
        schema_generator=_SchemaGenerator,
    )
    found: Schema = schemas["$defs"]
    for schema in found.values():
        schema.pop("title", None)
        if "enum" in schema:
            schema.pop("description", None)  # the docstring of the enumeration, which is written for developers
    return found


def _word(kind: Any) -> Schema:
    return {"type": "string", "enum": [each.value for each in kind]}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(name: str, schema: Schema, text: str = "", *, is_required: bool = False, place: str = "query") -> Schema:
    return {"name": name, "in": place, "required": is_required, "schema": schema, "description": text}


_SOUGHT = {"type": "string", "maxLength": LONGEST_FILTER}
_CLUSTER = _parameter("cluster", _SOUGHT, "Only results of this cluster; by default, of all.")
_LIST_PARAMETERS = [
    _parameter("q", _SOUGHT, "Text to find in the name, user, directory, rule or job id."),
    _CLUSTER,
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
_LOST_WORK_PARAMETERS = [
    _parameter("by", {**_word(GroupedBy), "default": "cause"}, "By what the sums are grouped."),
    _parameter("period", {**_word(Period), "default": "7d"}, "Attempts that ended in so many days until now."),
    _CLUSTER,
]
_JOB_ID = _parameter(
    "job_id", {"type": "string", "pattern": "^[1-9][0-9]{0,9}(_[0-9]{1,10})?$"}, is_required=True, place="path"
)
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
            "/api/v1/status": _get("State of the daemon", "Status", [_CLUSTER], is_public=True),
            "/api/v1/jobs": _get("Started jobs, ordered by severity of their flags", "Jobs", _JOB_PARAMETERS),
            "/api/v1/runs": _get(
                "Runs with a started job, ordered by severity of their flags", "RunRows", _JOB_PARAMETERS
            ),
            "/api/v1/jobs/{job_id}": _get("Runs that a job belongs or belonged to", "Runs", [_JOB_ID, _CLUSTER]),
            "/api/v1/flags": _get("Open flags, most severe first", "Flags", _LIST_PARAMETERS),
            "/api/v1/run": _get("All data of one run", "Run", _RUN_PARAMETERS),
            "/api/v1/lost-work": _get(
                "Lost work of ended attempts; a user's own, or everybody's for operators",
                "LostWorkReport",
                _LOST_WORK_PARAMETERS,
            ),
            "/api/v1/users/{name}": _get("One user's runs, jobs and open flags", "User", [_NAME, _CLUSTER]),
        },
        "components": {
            "schemas": describe_schemas(),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }
