import logging

import pytest

from ckptd.notify.smtp_channel import MailChannel, MailSettings, Relay
from support.mail_server import PASSWORD, USER, MailServer
from support.web_hook import serve_hook


@pytest.fixture(autouse=True)
def quiet_server():
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)


@pytest.fixture(params=["starttls", "tls"])
def any_mail_server(request, tmp_path):
    server = MailServer(tmp_path, security=request.param)
    server.security = request.param
    server.start()
    yield server
    server.stop()


@pytest.fixture
def hook():
    with serve_hook() as server:
        yield server


@pytest.fixture
def mail_server(tmp_path):
    server = MailServer(tmp_path)
    server.security = "starttls"
    server.start()
    yield server
    server.stop()


@pytest.fixture
def channel_to(tmp_path):
    """Makes a channel to a server, with what else the test wants."""

    def make(server, *relays, **changes):
        password_file = tmp_path / "password"
        if not password_file.exists():
            password_file.write_text(PASSWORD + "\n")
        values = {
            "relays": (*relays, Relay("127.0.0.1", server.port)),
            "sender": "ckptd@example.org",
            "security": server.security,
            "username": USER,
            "password_file": password_file,
            "ca_file": server.certificate,
            "timeout_seconds": 5.0,
            "deadline_seconds": 10.0,
        }
        return MailChannel(MailSettings(**(values | changes)))

    return make
