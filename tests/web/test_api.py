import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pydantic
import pytest
import schemathesis

from ckptd.core.model import RunKey
from ckptd.web import documents, openapi, query
from ckptd.web.query import run_address
from demo.patience import allow
from support.json_documents import check_answer
from web.samples import ALICE, BOB, EVIL

PLUGIN = "schemathesis.pytest.plugin"
MADE_UP = Path(__file__).with_name("made_up_requests.py")


@pytest.fixture(scope="module")
def described():
    """The description, ready to compare answers with."""
    return schemathesis.openapi.from_dict(openapi.describe())


def test_every_answer_to_made_up_requests_is_as_described_and_none_is_an_error_of_the_server():
    argv = [sys.executable, "-m", "pytest", "-q", "-pno:xdist", "-pno:cacheprovider", f"-p{PLUGIN}", MADE_UP]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=allow(600))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(openapi.describe()['paths'])} passed" in done.stdout


@pytest.mark.parametrize(
    "path",
    [
        "/jobs",
        "/runs",
        "/flags",
        "/status",
        "/jobs/101",
        "/run" + run_address(ALICE),
        "/run" + run_address(BOB),
        "/users/bob",
        "/lost-work?by=rule",
    ],
)
def test_real_documents_are_as_described(ask, described, path):
    answer = ask("/api/v1" + path, "olga")
    assert answer.status_code == 200
    template = next(name for name in openapi.describe()["paths"] if _fits("/api/v1" + path.split("?")[0], name))
    described[template]["GET"].validate_response(answer)


@pytest.mark.parametrize(
    "path",
    ["/jobs", "/runs", "/flags", "/status", "/jobs/101", "/run" + run_address(ALICE), "/users/alice", "/lost-work"],
)
def test_documents_hold_all_that_is_described_and_nothing_else(ask, path):
    answer = ask("/api/v1" + path, "alice")
    assert answer.status_code == 200
    check_answer("/api/v1" + path, answer.text)
    with pytest.raises(pydantic.ValidationError, match="Extra inputs are not permitted"):
        check_answer("/api/v1" + path, json.dumps(answer.json() | {"more": 1}))
    with pytest.raises(pydantic.ValidationError, match="Field required"):
        check_answer("/api/v1" + path, json.dumps(dict(list(answer.json().items())[1:])))


def test_every_field_of_every_answer_has_a_description():
    fields = {
        f"{name}.{field}": schema
        for name, described in openapi.describe_schemas().items()
        for field, schema in described.get("properties", {}).items()
    }
    assert len(fields) > 150
    assert [name for name, schema in fields.items() if not schema.get("description")] == []


def test_the_schemas_of_the_answers_are_named_without_their_types_suffix():
    schemas = openapi.describe_schemas()
    assert {"Job", "Flag", "Run", "RunRow", "EndedRun", "Error", "Status", "Jobs", "Flags", "Runs", "User"} <= set(
        schemas
    )
    assert not [name for name in schemas if name.endswith("Document")]


def _fits(path, template):
    parts, wanted = path.split("/"), template.split("/")
    return len(parts) == len(wanted) and all(
        one == other or other[0] == "{" for one, other in zip(parts, wanted, strict=True) if other
    )


def test_the_description_is_given_to_everybody_who_may_read_anything(ask, start):
    assert ask("/api/v1/openapi.json", "alice").json() == openapi.describe()
    assert httpx.get(start(local_users=False) + "/api/v1/openapi.json").json() == openapi.describe()


def test_a_job_is_described_by_every_id_that_slurm_gives():
    [named, _] = openapi.describe()["paths"]["/api/v1/jobs/{job_id}"]["get"]["parameters"]
    for name in ("4711", "4711_0", "4227858433_7", "9" * 10, f"1_{'9' * 10}"):  # ten digits, as in a federation
        assert re.search(named["schema"]["pattern"], name)
        assert query.parse_job(name)


def test_a_run_document_holds_its_time_line(ask):
    found = ask("/api/v1/run" + run_address(ALICE), "alice").json()
    assert [attempt["cause"] for attempt in found["attempts"]] == ["node-failure", None]
    assert len(found["timeline"]["losses"]) == 2
    assert found["flags"][0]["rule"] == "at-risk"


def test_a_run_without_a_directory_says_why(ask):
    [job] = [job for job in ask("/api/v1/jobs", "alice").json()["jobs"] if job["job_id"] == 102]
    run = RunKey(ALICE.cluster, ALICE.uid, job["run"])
    found = ask("/api/v1/run" + run_address(run), "alice").json()
    assert (found["located_by"], found["scan_problems"]) == (None, [f"{EVIL} is not the job's"])
    page = ask("/run" + run_address(run), "alice").text
    assert "The checkpoint directory is unknown: &lt;script&gt;" in page
    assert "\x1b" not in page


def test_a_name_that_is_not_utf8_comes_through_whole(ask):
    rows = ask("/api/v1/jobs?user=bob", "olga").json()["jobs"]
    assert rows[0]["name"] == EVIL + "nightly"
    assert rows[0]["run"] == BOB.directory


def test_lists_come_in_parts(ask):
    first = ask("/api/v1/jobs?limit=2", "olga").json()
    second = ask("/api/v1/jobs?limit=2&offset=2", "olga").json()
    assert first["total"] == second["total"] == 3
    assert len(first["jobs"] + second["jobs"]) == 3


def test_a_wrong_parameter_is_named_in_a_document(ask):
    answer = ask("/api/v1/jobs?stat=RUNNING", "olga")
    assert answer.status_code == 400
    assert "'stat': there is no such parameter" in answer.json()["error"]


def test_numbers_that_json_does_not_have_are_null():
    assert documents.encode({"epoch": [float("inf"), float("nan"), 1.5]}) == b'{"epoch": [null, null, 1.5]}'
