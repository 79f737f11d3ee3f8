"""What slurmrestd may answer, and what it must not be taken for."""

import base64
import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ckptd.core.model import QueueSnapshot, Unknown
from ckptd.slurm import queue_json
from ckptd.slurm.programs import Programs
from ckptd.slurm.rest_client import RestClient, list_token_headers
from ckptd.slurm.slurmrestd import DESCRIPTION, LARGE_QUEUE, SlurmrestdSource, choose_path
from ckptd.slurm.sources import open_source
from demo.patience import allow
from slurm import stand_in, stand_in_slurmrestd
from slurm.stand_in_slurmrestd import http, offer

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DATA = Path(__file__).parent.parent / "data" / "slurm"
PAYLOAD = (DATA / "24.11.5/squeue.json").read_text()
UNSPECIFIED = (
    '{"meta": {"Slurm": {"release": "22.05.8"}}, "errors": [{"error": "Unspecified error", "errno": -1, '
    '"description": "Failed while looking for jobs"}]}'
)  # of slurmrestd 22.05.8 while slurmctld is stopped
SILENT = "Unable to contact slurm controller"
JOBS = "/slurm/v0.0.42/jobs/"


@pytest.fixture
def ask(programs_in, tmp_path):
    """Ask a server with these answers once; returns what the source makes of it, and the server."""
    _, make = programs_in

    def ask_once(
        jobs, *, token_file=None, timeout_seconds=20.0, limit_bytes=10**8, cluster=None, only_user=None, **programs
    ):
        make(**programs)
        answers = {DESCRIPTION: offer(40, 42, slash="/"), JOBS: jobs}
        (tmp_path / "socket").unlink(missing_ok=True)
        with stand_in_slurmrestd.serve(answers, tmp_path) as server:
            client = RestClient(
                url=server.url, token_file=token_file, timeout_seconds=timeout_seconds, limit_bytes=limit_bytes
            )
            source = SlurmrestdSource(client, cluster=cluster, programs=Programs(), only_user=only_user)
            return source.read_queue(NOW), server

    return ask_once


def changed(**values):
    document = json.loads(PAYLOAD)
    document["jobs"][0] |= values
    return http(json.dumps(document))


def test_a_queue_arrives_whole(ask):
    snapshot, server = ask(http(PAYLOAD))
    assert isinstance(snapshot, QueueSnapshot), snapshot
    assert len(snapshot.jobs) == len(json.loads(PAYLOAD)["jobs"])
    assert all(b"TOKEN" not in request for request in server.requests)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [((38,), 38), ((39, 38), 39), ((40, 41, 42), 42), ((45, 46, 44), 45), ((47, 46), 46), ((9, 38), 38)],
)
def test_the_newest_known_version_of_the_server_is_used(offered, chosen):
    document = json.dumps({"paths": [f"/slurm/v0.0.{number}/jobs" for number in offered]})
    assert choose_path(document) == f"/slurm/v0.0.{chosen}/jobs"


@pytest.mark.parametrize("document", ["", "{}", '{"paths": 3}', '{"paths": ["/slurm/v0.0.42/nodes"]}', "[" * 100_000])
def test_a_server_without_a_list_of_jobs_is_unknown(document):
    assert isinstance(choose_path(document), Unknown)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (http(PAYLOAD[:5000]), "garbled output: JSONDecodeError"),
        (http(PAYLOAD[:5000], length=len(PAYLOAD)), "bytes are missing"),
        (http("[" * 200_000), "garbled output: RecursionError"),
        (http("{}"), "garbled output: KeyError: 'errors'"),
        (http('{"errors": [], "jobs": {"a": 1}}'), "garbled output: TypeError"),
        (http('{"errors": [{"error": "Unable to contact slurm controller"}], "jobs": []}'), "does not answer"),
        (http("Authentication failure", "401 UNAUTHORIZED"), "not permitted: unix:"),
        (http('{"errors": []}', "500 INTERNAL ERROR"), "HTTP status 500"),
        (http("slow down", "429 TOO MANY REQUESTS"), "rate limited: unix:"),
        (http("", "302 FOUND\r\nLocation: http://elsewhere/"), "HTTP status 302"),
        (http(UNSPECIFIED, "500 INTERNAL ERROR"), "HTTP status 500: Unspecified error Failed while looking"),
        (
            http('{"errors": [{"error": "Unable to contact slurm controller"}]}', "500 X"),
            "slurmctld does not answer: unix",
        ),
        (http('{"errors": [3, {"error": {"a": 1}}]}', "500 X"), "failed: unix:"),
        (b"", "failed: unix:"),
        (b"SSH-2.0-OpenSSH\r\n", "failed: unix:"),
        (changed(name={"a": 1}), "name is no text"),
        (changed(user_name=7), "user_name is no text"),
        (changed(time_limit={"set": True, "infinite": False}), "garbled output: KeyError: 'number'"),
        (changed(time_limit=float("inf")), "garbled output: OverflowError"),
        (changed(job_state=[]), "garbled output: IndexError"),
    ],
)
def test_what_is_no_queue_is_unknown_with_its_reason(ask, answer, words):
    unknown, _ = ask(answer)
    assert isinstance(unknown, Unknown)
    assert words in unknown.reason


def call_cluster(name, text=PAYLOAD):
    return http(
        text.replace('"cluster": "lab"', f'"cluster": "{name}"').replace('"cluster":"lab"', f'"cluster":"{name}"')
    )


@pytest.mark.parametrize("release", ["22.05.8", "24.11.5"])
def test_the_queue_of_another_cluster_than_that_of_this_host_is_refused(ask, release):
    text = (DATA / release / "squeue.json").read_text("utf-8", "surrogateescape")
    unknown, _ = ask(call_cluster("prod", text))
    assert isinstance(unknown, Unknown), unknown
    assert "answers for the cluster 'prod', and slurm.conf here is of 'lab': correct rest_url" in unknown.reason
    snapshot, _ = ask(call_cluster("Lab", text))
    assert (snapshot.cluster, snapshot.slurm_name) == ("lab", None)


def test_a_configured_name_does_not_make_another_cluster_this_hosts(ask):
    unknown, _ = ask(call_cluster("prod"), cluster="prod")
    assert "answers for the cluster 'prod', and slurm.conf here is of 'lab'" in unknown.reason
    snapshot, _ = ask(call_cluster("lab"), cluster="prod")  # the records may keep a name of their own
    assert (snapshot.cluster, snapshot.slurm_name) == ("prod", "lab")


def test_without_scontrol_the_cluster_that_slurmrestd_names_is_reported_with_the_configured_name(ask):
    failing = {"rc": 1, "stderr": "error: no\n"}
    snapshot, _ = ask(call_cluster("prod"), cluster="lab", only_user="alice", scontrol=failing)
    assert (snapshot.cluster, snapshot.slurm_name) == ("lab", "prod")
    unknown, _ = ask(call_cluster("prod"), cluster="lab", only_user="alice")
    assert isinstance(unknown, Unknown)


def test_infinite_unset_and_plain_numbers_mean_what_they_say(ask):
    infinite = {"set": False, "infinite": True, "number": 0}
    job_id = json.loads(PAYLOAD)["jobs"][0]["job_id"]
    for value, minutes in ((infinite, None), ({"set": False, "infinite": False, "number": 5}, None), (7, 7)):
        snapshot, _ = ask(changed(time_limit=value, a_field_of_tomorrow=[1]))
        limit = next(job.time_limit for job in snapshot.jobs if job.job_id == job_id)
        assert (limit and limit.total_seconds() / 60) == minutes


def test_a_slow_server_and_a_large_answer_end_at_their_limits(ask):
    slow, _ = ask(None, timeout_seconds=0.2)
    assert "timed out" in slow.reason
    assert "took over 0.2 s" in slow.reason
    large, _ = ask(http(PAYLOAD), limit_bytes=5000)
    assert 'above 5000 bytes; use source = "squeue"' in large.reason


def test_a_missing_server_is_named(programs_in, tmp_path):
    _, make = programs_in
    make()
    unknown = open_source("slurmrestd", rest=RestClient(url=f"unix:{tmp_path}/none")).read_queue(NOW)
    assert unknown.reason.startswith(f"slurmctld does not answer: unix:{tmp_path}/none{DESCRIPTION}: slurmrestd is not")


def test_a_renewed_token_is_sent_and_one_that_others_can_read_is_refused(ask, tmp_path):
    token = tmp_path / "token"
    token.touch(0o600)
    for text, sent in (("aaa.bbb.ccc\n", b"aaa.bbb.ccc"), ("SLURM_JWT=ddd.eee.fff\n", b"ddd.eee.fff")):
        token.write_text(text)
        snapshot, server = ask(http(PAYLOAD), token_file=token)
        assert isinstance(snapshot, QueueSnapshot)
        assert all(b"X-SLURM-USER-TOKEN: " + sent + b"\r\n" in request for request in server.requests)
    token.chmod(0o644)
    refused, server = ask(http(PAYLOAD), token_file=token)
    assert (server.requests, "mode 0644" in refused.reason, "chmod 0600" in refused.reason) == ([], True, True)


def token(claims):
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


@pytest.mark.parametrize(
    ("claims", "has_expired"),
    [
        ({"exp": 1_700_000_000}, True),
        *[({"exp": expiry}, False) for expiry in (4_000_000_000, "x", float("inf"), -(10**30))],
        ({}, False),
        ([1], False),
    ],
)
def test_an_expired_token_is_named_as_the_reason_that_slurm_does_not_give(ask, tmp_path, claims, has_expired):
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(token(claims))
    unknown, _ = ask(http(UNSPECIFIED, "500 INTERNAL ERROR"), token_file=path)
    assert "HTTP status 500: Unspecified error Failed while looking" in unknown.reason
    assert unknown.reason.startswith("not permitted" if has_expired else "failed")
    assert (f"rest_token_file {path} expired at 2023-11-14 22:13:20 UTC" in unknown.reason) is has_expired
    snapshot, _ = ask(http(PAYLOAD), token_file=path)
    assert isinstance(snapshot, QueueSnapshot)  # the server decides


def test_the_user_of_a_token_is_sent_with_it_because_slurm_22_05_requires_it():
    for claims in ({"sun": "ckptd", "exp": 1}, {"username": "ckptd"}):
        assert list_token_headers(token(claims))[0] == "X-SLURM-USER-NAME: ckptd"
    for claims in ({}, {"sun": "a\r\nX-Other: 1"}, {"sun": {}}, ["sun"], 3):
        assert list_token_headers(token(claims)) == [f"X-SLURM-USER-TOKEN: {token(claims)}"]
    assert list_token_headers("opaque") == ["X-SLURM-USER-TOKEN: opaque"]


def test_no_value_that_is_read_of_a_job_is_dropped():
    for path in sorted(DATA.glob("*/*.json")):
        text = path.read_text()
        rows = json.loads(text)["jobs"]
        assert queue_json.parse(text, NOW, "lab").jobs == tuple(queue_json.build(row, "lab", NOW) for row in rows)


def test_a_large_queue_is_warned_about_with_what_it_cost(ask):
    def queue_of(count):
        row = json.loads(PAYLOAD)["jobs"][0]
        jobs = ",".join(json.dumps(row | {"job_id": number}) for number in range(1, count + 1))
        return http(f'{{"errors": [], "jobs": [{jobs}]}}')

    small, _ = ask(queue_of(LARGE_QUEUE - 1))
    assert small.warning is None
    large, _ = ask(queue_of(LARGE_QUEUE))
    assert re.match(r"slurmrestd took [0-9.]+ s and \d+ MiB of JSON for 10000 jobs; .*\"squeue\"", large.warning)


@pytest.mark.parametrize("text", ["", "a b", "a\r\nX-Other: 1", "é"])
def test_what_is_no_token_is_not_sent(ask, tmp_path, text):
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(text)
    refused, server = ask(http(PAYLOAD), token_file=token)
    assert server.requests == []
    assert f"token_file {token} holds no token" in refused.reason


def test_a_token_goes_only_to_a_server_whose_certificate_is_trusted_and_names_it(tmp_path, monkeypatch):
    certificate, token = tmp_path / "cert.pem", tmp_path / "token"
    token.touch(0o600)
    token.write_text("a.b.c")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", certificate, "-out", tmp_path / "public.pem"]
    subprocess.run([*request, *names], check=True, capture_output=True, timeout=allow(60))
    certificate.write_text(certificate.read_text() + (tmp_path / "public.pem").read_text())
    with stand_in_slurmrestd.serve({JOBS: http("{}")}, certificate=certificate) as server:
        refused = RestClient(url=server.url, token_file=token).get("queue", JOBS)
        assert refused.reason.startswith("not permitted: https://localhost:")
        assert "CERTIFICATE_VERIFY_FAILED" in refused.reason
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "public.pem"))
        misnamed = RestClient(url=server.url.replace("localhost", "127.0.0.1"), token_file=token).get("queue", JOBS)
        assert "CERTIFICATE_VERIFY_FAILED" in misnamed.reason
        assert server.requests == []
        assert RestClient(url=server.url, token_file=token).get("queue", JOBS) == "{}"
        assert b"X-SLURM-USER-TOKEN: a.b.c" in server.requests[0]


def test_one_user_s_jobs_are_not_the_queue_where_slurm_hides_others(ask):
    private = stand_in.HEALTHY["answers"] | {"show config": "ClusterName = lab\nPrivateData = jobs\n"}
    empty = http('{"errors": [], "jobs": []}')
    unknown, _ = ask(empty, scontrol={"answers": private})
    assert "PrivateData=jobs may hide" in unknown.reason
    snapshot, _ = ask(empty)
    assert snapshot.jobs == ()
