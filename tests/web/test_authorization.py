"""Who gets what, on every path that there is."""

import os
import pwd
import subprocess
import threading

import httpx
import pytest

from ckptd.config import ConfigError, read_config
from ckptd.web.access import AccessError, AccessRules
from ckptd.web.query import run_address
from ckptd.web.server import WebServer
from demo.patience import allow
from web.conftest import METRICS, PASSWORD
from web.samples import ALICE, BOB, BOBS_ENDED, SECRETS

PATHS = [
    "/",
    "/?q=bob",
    "/?user=bob",
    "/?rule=damaged-checkpoint",
    "/?severity=critical",
    "/?sort=user&limit=1000",
    "/flags",
    "/flags?user=bob",
    "/run" + run_address(BOB),
    "/run" + run_address(BOB._replace(uid=1000)),
    "/run" + run_address(ALICE),
    "/jobs/90190190",
    "/users/bob",
    "/nowhere",
    "/runbook",
    "/static/../users/bob",
    "/static/style.css",
    "/metrics",
    "/api/v1/openapi.json",
    "/api/v1/status",
    "/api/v1/runs",
    "/api/v1/runs?sort=user&limit=1000",
    "/run" + run_address(BOBS_ENDED),
    "/api/v1/jobs/51",
    "/api/v1/jobs",
    "/api/v1/jobs?user=bob&limit=1000",
    "/api/v1/jobs/90190190",
    "/api/v1/flags",
    "/api/v1/run" + run_address(BOB),
    "/api/v1/users/bob",
    "/lost-work",
    "/lost-work?by=user&period=365d",
    "/api/v1/lost-work?by=user",
    "/api/v1/lost-work?by=partition",
    "/api/v2/jobs",
]
ECHO = {"/?q=bob", "/?user=bob", "/flags?user=bob"}  # the form shows what was asked for


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("user", ["alice", "carol"])
def test_an_ordinary_user_gets_nothing_of_others(ask, user, path):
    answer = ask(path, user)
    assert answer.status_code in {200, 404}
    text = answer.text + answer.headers.get("location", "")
    assert not [secret for secret in SECRETS if secret in text and not (path in ECHO and secret == "bob")]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("given", [None, ("bob", "wrong"), ("nobody", PASSWORD), ("bob", ""), ("", "")])
def test_a_stranger_is_asked_for_a_password_and_gets_nothing(http, guarded, given, path):
    answer = http.get(guarded + path, auth=given)
    assert not [secret for secret in (*SECRETS, "alice", "resnet") if secret in answer.text]
    if path != "/static/style.css":
        assert answer.status_code == 401 or path == "/static/../users/bob"
        assert answer.status_code == 404 or "Basic" in answer.headers["www-authenticate"]


@pytest.fixture(scope="module")
def unguarded(record):
    """The address of a server that has no way to know people."""
    server = WebServer("127.0.0.1:0", METRICS, record, AccessRules(local_users=False))
    yield f"http://127.0.0.1:{server.port}"
    server.close()


@pytest.mark.parametrize("path", PATHS)
def test_without_any_way_to_know_people_nobody_is_shown_anything(http, unguarded, path):
    answer = http.get(unguarded + path)
    assert answer.status_code in {200, 403, 404}
    assert not [secret for secret in (*SECRETS, "alice", "resnet") if secret in answer.text]


def test_metrics_name_jobs_only_to_operators(ask, start, http):
    name = "ckptd_flag_opened_timestamp_seconds"
    assert name not in ask("/metrics", "alice").text
    assert name in ask("/metrics", "olga").text
    assert name not in http.get(start(local_users=False) + "/metrics").text
    assert name not in http.get(start(operators=frozenset()) + "/metrics").text
    assert name in http.get(start(operators=frozenset({OWN})) + "/metrics").text


def test_absent_and_forbidden_runs_look_the_same(ask):
    forbidden = ask("/api/v1/run" + run_address(BOB), "alice")
    absent = ask("/api/v1/run" + run_address(BOB._replace(directory="/none")), "alice")
    assert (forbidden.status_code, forbidden.text) == (absent.status_code, absent.text)


def test_users_see_their_own_runs_and_operators_all(ask):
    def jobs(user):
        return [row["job_id"] for row in ask("/api/v1/jobs?sort=job", user).json()["jobs"]]

    assert (jobs("alice"), jobs("bob"), jobs("carol"), jobs("olga")) == (
        [101, 102],
        [90190190],
        [],
        [101, 102, 90190190],
    )


@pytest.mark.parametrize(
    "header", ["Bearer x", "Basic", "Basic !!!", "Basic Ym9i", "Basic /w==", "Basic OmEgZ29vZCBwYXNzd29yZA=="]
)
def test_a_broken_proof_is_refused(http, guarded, header):
    assert http.get(guarded + "/api/v1/jobs", headers={"authorization": header}).status_code == 401


def test_a_header_that_names_a_user_counts_only_from_a_trusted_address(http, start):
    address = start(local_users=False)
    assert http.get(address + "/api/v1/jobs", headers={"X-Remote-User": "root"}).status_code == 403


OWN = pwd.getpwuid(os.geteuid()).pw_name


def test_a_proxy_on_this_host_is_believed_only_under_its_account(http, start):
    networks = read_config(None, {"CKPTD_WEB__TRUSTED_PROXIES": '["127.0.0.0/8"]', "CKPTD_WEB__PROXY_ACCOUNT": OWN})
    rules = {"trusted_proxies": networks.web.trusted_proxies, "operators": frozenset({"olga"}), "local_users": False}
    believed = start(proxy_account=OWN, **rules)
    names = {"X-Remote-User": "alice"}
    found = http.get(believed + "/api/v1/jobs", headers=names).json()["jobs"]
    assert {row["user"] for row in found} == {"alice"}
    assert http.get(believed + "/api/v1/jobs").status_code == 403
    twice = [("X-Remote-User", "alice"), ("X-Remote-User", "olga")]
    assert http.get(believed + "/api/v1/jobs", headers=twice).status_code == 403
    other = start(proxy_account="daemon", **rules)
    assert http.get(other + "/api/v1/jobs", headers=names).status_code == 403


def test_a_proxy_on_this_host_needs_an_account_in_the_configuration():
    with pytest.raises(ConfigError, match="web: trusted_proxies contains an address of this host: set proxy_account"):
        read_config(None, {"CKPTD_WEB__TRUSTED_PROXIES": '["127.0.0.1"]'})


def test_a_proxy_account_that_does_not_exist_is_named(record):
    with pytest.raises(AccessError, match=r"web\.proxy_account: there is no account 'nobody-of-this-name'"):
        WebServer("127.0.0.1:0", METRICS, record, AccessRules(proxy_account="nobody-of-this-name"))


ASK = "import json,sys,urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_the_kernel_says_who_connects_from_this_host(start, host):
    uid = 1000 if os.geteuid() == 0 else os.geteuid()
    listen = "[::1]:0" if host == "[::1]" else "127.0.0.1:0"
    port = start(listen, operators=frozenset()).rpartition(":")[2]
    url = f"http://localhost:{port}/api/v1/jobs"
    program = ASK if "ffff" not in host else MAPPED
    command = [
        "/usr/bin/python3",
        "-Ic",
        program,
        url.replace("localhost", host if "ffff" not in host else "localhost"),
    ]
    done = subprocess.run(command, user=uid, capture_output=True, text=True, check=True, timeout=allow(30))
    assert "90190190" not in done.stdout
    assert ("101" in done.stdout) is (uid == 1000)


MAPPED = """
import http.client, socket, sys
port = int(sys.argv[1].split(':')[2].split('/')[0])
connection = http.client.HTTPConnection('localhost', port)
connection.sock = socket.socket(socket.AF_INET6)
connection.sock.connect(('::ffff:127.0.0.1', port))
connection.request('GET', '/api/v1/jobs')
print(connection.getresponse().read().decode())
"""


def test_root_on_this_host_is_an_operator_unless_the_site_says_otherwise(http, start):
    mine = {OWN}
    assert http.get(start(operators=frozenset(mine)) + "/api/v1/status").json()["is_operator"] is True
    assert http.get(start(operators=frozenset()) + "/api/v1/status").json()["is_operator"] is False


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example.org"},
        {"host": "localhost.evil.example.org:80"},
        {"x-forwarded-for": "10.0.0.1"},
        {"via": "1.1 proxy"},
        {"forwarded": "for=10.0.0.1"},
    ],
)
def test_what_a_proxy_or_a_foreign_page_sends_is_not_taken_for_the_user(http, start, headers):
    address = start(operators=frozenset({OWN}))
    assert http.get(address + "/api/v1/jobs").status_code == 200
    assert http.get(address + "/api/v1/jobs", headers=headers).status_code == 403


@pytest.mark.parametrize("guessed", ["/", "/metrics", "/api/v1/jobs"])
def test_guesses_make_nobody_wait_who_was_let_in_before(ask, guarded, monkeypatch, guessed):
    assert ask("/metrics", "alice").status_code == 200
    is_tried, may_end = threading.Event(), threading.Event()

    def try_for_long(_password, _stored):
        is_tried.set()
        return may_end.wait(allow(30)) and False

    monkeypatch.setattr("ckptd.web.web_config.bcrypt.checkpw", try_for_long)
    options = {"auth": ("alice", "a guess"), "timeout": 60}
    guesses = [threading.Thread(target=httpx.get, args=(guarded + guessed,), kwargs=options) for _ in range(6)]
    try:
        for guess in guesses:
            guess.start()
        assert is_tried.wait(allow(20))
        for path in ("/metrics", "/", "/api/v1/jobs"):
            assert ask(path, "alice").status_code == 200
    finally:
        may_end.set()
        for guess in guesses:
            guess.join()


class Unread:
    """A record whose runs nobody may read."""

    def find_runs_of_job(self, job_id, cluster, task_id):
        return [BOB]

    def join_parts(self, keys):
        return keys

    def read_histories(self, cluster, keys):
        raise AssertionError("it was read")


@pytest.mark.parametrize("path", ["/run" + run_address(BOB), "/api/v1/run" + run_address(BOB), "/jobs/90190190"])
def test_of_others_runs_nothing_is_read_for_the_time_that_takes_would_tell(path):
    server = WebServer("127.0.0.1:0", METRICS, Unread(), AccessRules(operators=frozenset()))
    try:
        assert httpx.get(f"http://127.0.0.1:{server.port}{path}", timeout=allow(20)).status_code == 404
    finally:
        server.close()
