"""When the certificate of the status page expires, from real certificates and from files that are none."""

import logging
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from ckptd.metrics.collector import ReportCollector
from ckptd.web.certificate_expiry import parse_expiry
from ckptd.web.web_config import WebConfig

KEY = ec.generate_private_key(ec.SECP256R1())
NEAR, FAR = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2051, 1, 1, tzinfo=UTC)


def make_pem(expires_at):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ckptd.example.org")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(expires_at)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("expires_at", [NEAR, FAR])  # dates from 2050 on have another form
def test_the_expiry_is_that_of_the_first_certificate_of_the_file(expires_at):
    assert parse_expiry("a comment\n" + make_pem(expires_at) + make_pem(NEAR + timedelta(days=9))) == expires_at


@given(st.binary(max_size=200))
def test_what_is_no_certificate_is_refused(content):
    with pytest.raises(ValueError, match=r".+"):
        parse_expiry(ssl.DER_cert_to_PEM_cert(content))


def test_a_certificate_that_was_cut_off_anywhere_is_refused_or_its_expiry_is_the_right_one():
    whole = ssl.PEM_cert_to_DER_cert(make_pem(NEAR))
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r".+"):
            parse_expiry(ssl.DER_cert_to_PEM_cert(whole[:length]))


@pytest.fixture
def folder(tmp_path):
    key = KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "server.key").write_bytes(key)
    (tmp_path / "server.crt").write_text(make_pem(NEAR))
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    return tmp_path


def test_a_new_certificate_changes_the_expiry_and_a_refused_one_does_not(folder, caplog):
    config = WebConfig(folder / "web.yml")
    assert config.certificate_expires_at == NEAR
    (folder / "server.crt").write_text(make_pem(FAR))
    assert config.certificate_expires_at == FAR
    with caplog.at_level(logging.ERROR):
        (folder / "server.crt").write_text("nothing")
        assert config.certificate_expires_at == FAR
    assert "failed, keeping the previous one: " in caplog.text


def test_without_tls_there_is_no_expiry_and_no_series(tmp_path):
    (tmp_path / "web.yml").write_text("")
    collector = ReportCollector("1", started_at=NEAR)
    collector.record_certificate(WebConfig(tmp_path / "web.yml").certificate_expires_at)
    assert b"certificate" not in collector.exposition.read(is_compressed=False)
    collector.record_certificate(NEAR)
    lines = collector.exposition.read(is_compressed=False).decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith("ckptd_web_certificate_expiry_timestamp_seconds")]
    assert float(value) == NEAR.timestamp()
