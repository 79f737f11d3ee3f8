import io
import logging

import pytest

from ckptd.core.model import Severity
from ckptd.core.notices.delivery import SendResult
from ckptd.notify.apprise_channel import AppriseChannel, read_urls
from ckptd.notify.interface import Message, NotifyError
from ckptd.notify.log_channel import LogChannel
from ckptd.service.build_notify import CHANNELS

HOSTILE = "x <b>&amp;</b> {{ 7*7 }} Ünï"


@pytest.fixture(params=sorted(CHANNELS))
def channel(request, tmp_path, hook, caplog):
    """Each channel with a way to see what arrived and to make the other side fail."""
    caplog.set_level("INFO")
    if request.param == "mail":
        server, make = request.getfixturevalue("mail_server"), request.getfixturevalue("channel_to")
        made = make(server)
        made.arrived = lambda: [mail["Subject"] for mail in server.inbox.mails]
        made.fail = lambda: server.inbox.answers.update(RCPT="451 later")
        made.address = "alice@example.org"
    elif request.param == "apprise":
        urls = tmp_path / "urls"
        urls.write_text(f"# rooms\n\nops json://127.0.0.1:{hook.server_address[1]}/?verify=no\n")
        made = AppriseChannel(urls)
        made.arrived = lambda: hook.bodies
        made.fail = lambda: setattr(hook, "status", 500)
        made.address = "ops"
    else:
        assert request.param == "log"
        made = LogChannel()
        made.arrived = lambda: [record.getMessage() for record in caplog.records if record.name == "ckptd.notices"]
        made.fail = None
        made.address = "alice@example.org"
    return made


def message_to(channel, **changes):
    values = {"subject": HOSTILE, "text": HOSTILE, "html": "<p>x</p>", "key": "k", "thread": None}
    return Message(address=channel.address, severity=Severity.WARNING, **(values | changes))


def test_a_message_arrives_and_is_said_to_be_sent(channel):
    assert channel.send(message_to(channel)).result is SendResult.SENT
    (arrived,) = channel.arrived()
    assert "{{ 7*7 }}" in arrived


def test_a_failure_of_the_other_side_is_an_outcome_with_its_reason_and_not_an_error(channel):
    if channel.fail is None:
        return  # the log has no other side
    channel.fail()
    outcome = channel.send(message_to(channel))
    assert outcome.result in {SendResult.DEFERRED, SendResult.UNREACHABLE}
    assert outcome.reason


def test_a_channel_may_be_used_again_and_again(channel):
    for number in range(3):
        assert channel.send(message_to(channel, key=str(number))).result is SendResult.SENT
    assert len(channel.arrived()) == 3


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("json://host/secret-token", "line 1 is not of the form NAME URL"),
        ("ops nonsense-secret", "line 1 is not of the form NAME URL"),
        ("\nops json://a\nops json://secret", "line 3 names 'ops' again"),
    ],
)
def test_a_wrong_line_of_addresses_is_named_without_its_secret(tmp_path, text, trouble):
    (tmp_path / "urls").write_text(text)
    with pytest.raises(NotifyError, match=trouble) as caught:
        read_urls(tmp_path / "urls")
    assert "secret" not in str(caught.value)


def test_an_address_of_an_unknown_kind_is_refused_at_the_start_without_its_secret(tmp_path):
    (tmp_path / "urls").write_text("ops nosuchkind://secret")
    with pytest.raises(NotifyError, match="the kind of address that 'ops' is") as caught:
        AppriseChannel(tmp_path / "urls")
    assert "secret" not in str(caught.value)


@pytest.fixture
def log():
    """Everything that a program with log_level = "debug" writes."""
    root, written = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(written), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.mark.parametrize("is_there", [True, False])
def test_no_log_line_at_any_level_and_no_outcome_holds_an_address(tmp_path, hook, log, is_there):
    port = hook.server_address[1]
    hook.status = 500
    if not is_there:
        hook.server_close()
    urls = tmp_path / "urls"
    urls.write_text(f"ops json://alice:s3cret@127.0.0.1:{port}/t0ken?verify=no&+X-Key=k3y\n")
    channel = AppriseChannel(urls)
    channel.address = "ops"
    outcome = channel.send(message_to(channel))
    assert outcome.result is SendResult.DEFERRED
    assert outcome.reason == f"ops did not take it: {'HTTP status 500' if is_there else 'no connection'}"
    logging.getLogger("other").debug("heard")
    assert "heard" in log.getvalue()
    for secret in ("s3cret", "t0ken", "k3y"):
        assert secret not in log.getvalue()
