import pytest
from click.testing import CliRunner

from ckptd.cli import main
from support.mail_server import PASSWORD, USER, MailServer, free_port


@pytest.fixture
def server(tmp_path):
    started = MailServer(tmp_path)
    started.start()
    yield started
    started.stop()


def run(tmp_path, port, certificate, *command, more=""):
    (tmp_path / "password").write_text(PASSWORD)
    config = tmp_path / "config.toml"
    config.write_text(
        f'[mail]\nsender = "ckptd@example.org"\nrelays = ["127.0.0.1:{port}"]\nca_file = "{certificate}"\n'
        f'username = "{USER}"\npassword_file = "{tmp_path}/password"\ntimeout = "5s"\n{more}'
    )
    return CliRunner().invoke(main, ["--config", str(config), "mail", "test", *command])


def test_a_sample_message_is_sent_even_while_mail_is_off(tmp_path, server):
    done = run(tmp_path, server.port, server.certificate, "admin@example.org")
    assert (done.exit_code, done.output) == (0, "sent: the relay accepted the message\n")
    (mail,) = server.inbox.mails
    assert mail["To"] == "admin@example.org"
    assert "This is a test message" in mail.get_body(["plain"]).get_content()


def test_a_relay_that_does_not_take_it_is_trouble_with_its_words(tmp_path, server):
    server.inbox.answers["RCPT"] = "550 5.1.1 no such user here"
    done = run(tmp_path, server.port, server.certificate, "nobody@example.org")
    assert done.exit_code == 1
    assert "refused: 550 5.1.1 no such user here" in done.output


def test_a_dead_relay_is_trouble_with_its_name(tmp_path, server):
    port = free_port()
    done = run(tmp_path, port, server.certificate, "admin@example.org")
    assert done.exit_code == 1
    assert f"unreachable: 127.0.0.1:{port}: " in done.output


def test_what_is_no_address_is_wrong_usage(tmp_path, server):
    done = run(tmp_path, server.port, server.certificate, "admin\n@example.org")
    assert done.exit_code == 2
    assert "is not a mail address" in done.output


def test_a_broken_template_is_told_by_the_check_and_by_the_test_which_sends_all_the_same(tmp_path, server):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/body.txt").write_text("{{ nothing }}")
    config = tmp_path / "config.toml"
    config.write_text(f'[mail]\ntemplates = "{tmp_path}/templates"\n')
    trouble = f"mail.templates: {tmp_path}/templates/body.txt: line 1: 'nothing' is undefined"
    checked = CliRunner().invoke(main, ["--config", str(config), "config", "check"])
    assert (checked.exit_code, checked.stderr) == (2, f"{trouble}\n")
    done = run(
        tmp_path, server.port, server.certificate, "admin@example.org", more=f'templates = "{tmp_path}/templates"\n'
    )
    assert done.exit_code == 0
    assert trouble in done.stderr
    assert len(server.inbox.mails) == 1
