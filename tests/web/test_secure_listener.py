"""A real Prometheus scrapes the listener through TLS with a password; nobody else reads anything."""

import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import ExitStack

import bcrypt
import pytest

from ckptd.web.access import AccessRules
from ckptd.web.connections import MOST_SOCKETS
from ckptd.web.server import WebServer
from ckptd.web.web_config import WebConfig
from demo.patience import allow
from support.prometheus_server import Prometheus, wait_for
from web.conftest import METRICS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    made = tmp_path_factory.mktemp("certificate")
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "2", "-subj", "/CN=ckptd", "-addext", "subjectAltName=IP:127.0.0.1"]
    argv += ["-keyout", made / "server.key", "-out", made / "server.crt"]
    subprocess.run(argv, check=True, capture_output=True, timeout=allow(60))
    return made


@pytest.fixture
def listener(tmp_path, record, certificate):
    for path in certificate.iterdir():
        shutil.copy(path, tmp_path)
    stored = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(
        "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
        "http_server_config: {headers: {X-Frame-Options: deny}}\n"
        f"basic_auth_users: {{prometheus: '{stored}'}}\n"
    )
    server = WebServer("127.0.0.1:0", METRICS, record, AccessRules(), WebConfig(tmp_path / "web.yml"))
    yield server
    server.close()


def test_prometheus_scrapes_with_certificate_and_password(listener, tmp_path):
    access = {
        "scheme": "https",
        "tls_config": {"ca_file": str(tmp_path / "server.crt")},
        "basic_auth": {"username": "prometheus", "password": "secret"},
    }
    with Prometheus(tmp_path, f"127.0.0.1:{listener.port}", access=access) as scraping:
        wait_for("the scrape", lambda: scraping.query("ckptd_sample == 1"))


@pytest.mark.parametrize("path", ["/metrics", "/", "/nowhere"])
def test_without_the_password_nothing_is_told(listener, tmp_path, path):
    context = ssl.create_default_context(cafile=tmp_path / "server.crt")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"https://127.0.0.1:{listener.port}{path}", timeout=allow(10), context=context)
    with refused.value as answer:
        assert answer.code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
        assert answer.headers["X-Frame-Options"] == "deny"
        assert b"ckptd_sample" not in answer.read()


def test_plain_http_gets_no_answer(listener):
    with pytest.raises(OSError, match=r"closed|reset|Remote"):
        urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=allow(10))


def test_connections_that_never_greet_make_room_for_who_does(listener, tmp_path):
    context = ssl.create_default_context(cafile=tmp_path / "server.crt")
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=allow(20)))
            for _ in range(2 * MOST_SOCKETS)
        ]
        request = urllib.request.Request(f"https://127.0.0.1:{listener.port}/metrics")
        request.add_header("Authorization", "Basic " + b64encode(b"prometheus:secret").decode())
        with urllib.request.urlopen(request, timeout=allow(20), context=context) as answer:
            assert b"ckptd_sample" in answer.read()
        assert silent[0].recv(1) == b""
        held = [each for each in listener._socket._accepted if each.fileno() >= 0]
        assert len(held) <= MOST_SOCKETS
