"""TLS, client certificates and passwords by exporter-toolkit's file, with real handshakes."""

import base64
import os
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from ckptd.web.web_config import WebConfig, WebConfigError
from demo.patience import allow

HASH = "$2b$04$ckptdckptdckptdckptdcuNvHMJhnoOeVSog4yQYa8HHHOR4BQaw6"  # of "secret"
TLS = "tls_server_config: {cert_file: server.crt, key_file: server.key%s}\n"
CLIENTS = TLS % ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: client.crt"


def make_certificate(folder, name, subject):
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    argv += ["-subj", f"/CN={subject}", "-addext", "subjectAltName=DNS:localhost"]
    argv += ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"]
    subprocess.run(argv, check=True, capture_output=True, timeout=allow(60))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = tmp_path_factory.mktemp("certificates")
    make_certificate(made, "server", "first")
    make_certificate(made, "client", "client")
    return made


@pytest.fixture
def folder(tmp_path, certificates):
    for path in certificates.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def write(folder, text):
    path = folder / "web.yml"
    path.write_text(text)
    return path


def basic(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def shake_hands(config, client):
    """Connect once over a socket pair; return the server's certificate as the client sees it."""
    ours, theirs = socket.socketpair()
    context = config.server_context()
    failures = []

    def serve():
        try:
            with context.wrap_socket(ours, server_side=True) as secured:
                secured.recv(1)
                secured.send(b"x")
        except OSError as error:
            failures.append(error)
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with theirs, client.wrap_socket(theirs, server_hostname="localhost") as secured:
            secured.send(b"x")
            if secured.recv(1) != b"x":  # with TLS 1.3 a refused client learns it only here
                raise ssl.SSLError("closed")
            return secured.getpeercert()
    finally:
        thread.join(timeout=allow(30))
        ours.close()


def client_context(folder, *, certificate=None):
    context = ssl.create_default_context(cafile=folder / "server.crt")
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    return context


def subject(certificate):
    return certificate["subject"][0][0][1]


def test_a_connection_is_encrypted_by_the_certificate_of_the_file(folder):
    config = WebConfig(write(folder, TLS % ""))
    assert config.has_tls
    assert subject(shake_hands(config, client_context(folder))) == "first"


def test_a_new_certificate_is_used_without_a_restart(folder):
    config = WebConfig(write(folder, TLS % ""))
    shake_hands(config, client_context(folder))
    make_certificate(folder, "server", "second")
    assert subject(shake_hands(config, client_context(folder))) == "second"


def test_with_client_certificates_only_those_who_have_one_get_in(folder):
    config = WebConfig(write(folder, CLIENTS))
    assert shake_hands(config, client_context(folder, certificate="client"))
    for stranger in (None, "server"):
        with pytest.raises(OSError, match=r"alert|closed|reset|EOF|Broken"):
            shake_hands(config, client_context(folder, certificate=stranger))


def test_client_certificates_can_be_asked_for_without_a_restart(folder):
    config = WebConfig(write(folder, TLS % ""))
    assert shake_hands(config, client_context(folder))
    write(folder, CLIENTS)
    with pytest.raises(OSError, match=r"alert|closed|reset|EOF|Broken"):
        shake_hands(config, client_context(folder))


def test_an_old_version_of_tls_is_refused_where_the_file_says_so(folder):
    config = WebConfig(write(folder, TLS % ", min_version: TLS13"))
    old = client_context(folder)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError, match=r"alert|closed|reset|EOF"):
        shake_hands(config, old)


def test_only_the_users_of_the_file_get_in(tmp_path):
    config = WebConfig(write(tmp_path, f"basic_auth_users: {{prometheus: '{HASH}'}}\n"))
    for _ in range(2):  # the second time from memory
        assert config.is_allowed(basic("prometheus", "secret"))
        for wrong in (None, "", "Bearer x", "Basic ???", basic("prometheus", ""), basic("prometheus", "Secret")):
            assert not config.is_allowed(wrong)
        assert not config.is_allowed(basic("other", "secret"))
        assert not config.is_allowed(basic("", ""))
        assert not config.is_allowed(basic("prometheus", "secret" + "x" * 100))


def test_a_file_of_many_costly_passwords_is_read_as_fast_as_any(tmp_path):
    costly = HASH[:4] + "31" + HASH[6:]  # a day for one try
    assert WebConfig(write(tmp_path, f"basic_auth_users: {{one: '{costly}', two: '{costly}'}}\n")).has_users


def test_a_user_who_was_removed_is_out_at_once(tmp_path):
    path = write(tmp_path, f"basic_auth_users: {{one: '{HASH}', two: '{HASH}'}}\n")
    config = WebConfig(path)
    assert config.is_allowed(basic("one", "secret"))
    write(tmp_path, f"basic_auth_users: {{two: '{HASH}'}}\n")
    assert not config.is_allowed(basic("one", "secret"))
    assert config.is_allowed(basic("two", "secret"))


def test_a_file_that_became_wrong_leaves_the_old_one_in_force_and_says_so_once(tmp_path, caplog):
    path = write(tmp_path, f"basic_auth_users: {{one: '{HASH}'}}\n")
    config = WebConfig(path)
    write(tmp_path, "basic_auth_user: {}\n")
    assert config.is_allowed(basic("one", "secret"))
    assert not config.is_allowed(None)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    os.unlink(path)
    assert not config.is_allowed(None)


def test_tls_is_not_turned_off_behind_a_listener(folder):
    config = WebConfig(write(folder, TLS % ""))
    write(folder, "{}\n")
    assert subject(shake_hands(config, client_context(folder))) == "first"


def test_without_users_and_certificates_everybody_gets_in(tmp_path):
    config = WebConfig(write(tmp_path, ""))
    assert not config.has_tls
    assert config.is_allowed(None)


def test_headers_of_the_file_are_told(tmp_path):
    config = WebConfig(write(tmp_path, "http_server_config: {headers: {X-Frame-Options: deny}}\n"))
    assert config.headers == {"X-Frame-Options": "deny"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tls_server_config: {cert_file: nowhere.crt, key_file: server.key}", "No such file"),
        ("tls_server_config: {cert_file: server.crt}", "tls_server_config.key_file"),
        ("tls_server_config: {cert_file: server.crt, key_file: client.key}", "mismatch"),
        (TLS % ", client_auth_type: RequireAnyClientCert", "RequireAnyClientCert"),
        (TLS % ", client_auth_type: RequireAndVerifyClientCert", "belong together"),
        (TLS % ", client_ca_file: client.crt", "belong together"),
        (TLS % ", cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]", "TLS_RSA_WITH_RC4_128_SHA"),
        (TLS % ", client_allowed_sans: [x]", "client_allowed_sans"),
        (TLS % ", min_version: TLS10", "min_version"),
        ("basic_auth_users: {a: plain}", "a: not a bcrypt hash"),
        (f"basic_auth_users: {{a: '{HASH[:4]}99{HASH[6:]}'}}", "a: not a bcrypt hash"),
        (f"basic_auth_users: {{a: '{HASH[:7]}{'z' * 53}'}}", "a: not a bcrypt hash"),
        ("http_server_config: {headers: {Set-Cookie: x}}", "Set-Cookie"),
        ('http_server_config: {headers: {X-Frame-Options: "a\\nb"}}', "one line"),
        ("[1]", "web.yml"),
        ("{", "web.yml"),
        ("tls: {}", "tls"),
    ],
)
def test_a_wrong_file_is_refused_by_the_name_of_what_is_wrong(folder, text, complaint):
    with pytest.raises(WebConfigError, match=complaint):
        WebConfig(write(folder, text))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(WebConfigError, match="No such file"):
        WebConfig(tmp_path / "web.yml")
