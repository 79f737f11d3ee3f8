from datetime import timedelta
from types import SimpleNamespace

import pytest

from ckptd import config
from ckptd.core import notices
from ckptd.core.notices import NoticeMode
from ckptd.service import build_notify, build_send

GOOD = 'mode = "on"\nsender = "ckptd@example.org"\nrecipient = "{user}@example.org"\n'

PARTS = SimpleNamespace(cluster="c1", store=None, agent=None, limits=None, notice_policy=notices.NoticePolicy())


def read(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return config.read_config(path, {})


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ('mode = "on"\n', 'mode = "on" needs a valid address as sender'),
        ('mode = "on"\nsender = "ckptd"\n', "needs a valid address as sender"),
        ('mode = "log"\nsender = "a@b.example"\n', 'mode = "log" needs recipient with the user\'s name in it'),
        (GOOD.replace("{user}", "hpc"), 'needs recipient with the user\'s name in it, such as "{user}@example.org"'),
        (GOOD.replace("{user}", "{user}.{name}"), "needs recipient with the user's name in it"),
        (GOOD.replace('"on"', '"admin"'), 'mode = "admin" needs admins'),
        (GOOD + 'admins = ["root"]\n', "'root' is not a mail address"),
        *(
            (GOOD + f'relays = ["a:25", "{relay}"]\n', f"mail.relays: {relay!r} is not of the form HOST:PORT")
            for relay in ("", "smtp.example.org", ":25", "[]:25", "[::::]:25", "a b:25", "a:b:25", "a:", "a/b:25")
        ),
        *(
            (GOOD + f'relays = ["a:{port}"]\n', f"mail.relays: 'a:{port}' has the port {port}; use one from 1 to 65535")
            for port in ("0", "99999", "65536", "123456789012")
        ),
        (GOOD + "relays = []\n", "mail.relays: name at least one server as HOST:PORT"),
        *(
            (GOOD + f'allowed_domains = ["example.org", "{domain}"]\n', f"'{domain}' is not a mail domain")
            for domain in ("", "@example.org", "*.example.org", ".example.org", "a@example.org", "example.org.")
        ),
        (GOOD + 'username = "x"\n', "username and password_file must be set together"),
        (
            GOOD + 'username = "x"\npassword_file = "/x"\nsecurity = "none"\n',
            "the password would be sent unencrypted",
        ),
        (
            GOOD + 'repeat_gap = "12h"\n',
            "mail: info_window must be shorter than repeat_gap: a reminder would be due before the first notification",
        ),
        (GOOD + 'critical_window = "7d"\n', "mail: critical_window must be shorter than repeat_gap"),
        (GOOD + 'warning_window = "9d"\n', "mail: warning_window must be shorter than repeat_gap"),
        (
            GOOD + 'repeat_gap = "91d"\n[store]\nkeep = "90d"\n',
            "config.toml: mail.repeat_gap must not be longer than store.keep: notifications are deleted",
        ),
        ("[apprise]\naudience = []\n", "apprise.audience: "),
        (GOOD + 'pasword_file = "/x"\n', "mail.pasword_file: unknown setting; did you mean 'password_file'?"),
        (GOOD + 'mode2 = "x"\n', "mail.mode2: unknown setting; did you mean 'mode'?"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_write(tmp_path, text, trouble):
    with pytest.raises(config.ConfigError) as caught:
        read(tmp_path, f"[mail]\n{text}")
    assert trouble in str(caught.value)


def test_relays_may_be_addresses_of_either_kind(tmp_path):
    section = read(tmp_path, f'[mail]\n{GOOD}relays = ["[2001:db8::1]:25", "192.0.2.1:587"]\n').mail
    relays = build_notify.build_mail_channel(section)._settings.relays
    assert [(relay.host, str(relay)) for relay in relays] == [
        ("2001:db8::1", "[2001:db8::1]:25"),
        ("192.0.2.1", "192.0.2.1:587"),
    ]


@pytest.mark.parametrize(
    ("mode", "channels"), [("off", set()), ("log", {"log"}), ("admin", {"mail"}), ("on", {"mail"})]
)
def test_each_mode_opens_the_channel_that_it_is_called_after(tmp_path, mode, channels):
    found = read(tmp_path, f'[mail]\n{GOOD.replace("on", mode, 1)}admins = ["root@example.org"]\n')
    made = build_send.build_post(found, PARTS)
    assert (set(made.channels), build_notify.build_policy(found).mode.value) == (channels, mode)


def test_settings_at_their_bounds_do_not_contradict_one_another(tmp_path):
    found = read(tmp_path, f'[mail]\n{GOOD}repeat_gap = "90d"\ninfo_window = "89d"\n[store]\nkeep = "90d"\n')
    assert found.mail.repeat_gap == found.store.keep


@pytest.mark.parametrize(("more", "minutes"), [("", 15), ('timeout = "5m"\nrelays = ["a:25", "b:25"]\n', 60)])
def test_no_claim_is_taken_for_cut_off_while_the_relays_may_still_be_asked(tmp_path, more, minutes):
    made = build_send.build_post(read(tmp_path, f"[mail]\n{GOOD}{more}"), PARTS)
    assert made.lease == timedelta(minutes=minutes)


def test_without_a_word_no_mail_leaves(tmp_path):
    assert build_notify.build_policy(read(tmp_path, "")).mode is NoticeMode.OFF


def test_the_policy_is_as_configured_and_rooms_are_known_by_name_only(tmp_path):
    (tmp_path / "urls").write_text("ops json://host/token\n")
    found = read(tmp_path, f'[mail]\n{GOOD}[apprise]\nurls_file = "{tmp_path}/urls"\naudience = ["user", "admin"]\n')
    policy = build_notify.build_policy(found)
    assert (policy.mode, policy.user_rule) == (NoticeMode.ON, "{user}@example.org")
    (room,) = policy.rooms
    assert (room.recipient, room.audience) == (("apprise", "ops"), {"user", "admin"})
    assert "token" not in repr(policy)
