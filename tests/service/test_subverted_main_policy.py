"""The main process in an attacker's hands: whom the agent serves, and how often, is what a trusted file says."""

import grp
import json
import os
import pwd

import pytest

from ckptd.checkpoints.agent.client import AgentReloadError
from ckptd.checkpoints.agent.identities import read_identities
from ckptd.checkpoints.agent.request_rate import RequestRate
from ckptd.service.agent_start import start_agent
from demo.patience import allow
from service.subverted_main import ALICE, OVERFLOW, Attacker, user_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def test_members_of_denied_groups_and_users_of_the_configuration_are_refused(place):
    users = [user.pw_name for user in pwd.getpwall() if user.pw_uid not in {0, *OVERFLOW}]
    member = next(name for name in users if os.getgrouplist(name, pwd.getpwnam(name).pw_gid))
    group = grp.getgrgid(pwd.getpwnam(member).pw_gid).gr_name
    other = next(name for name in users if name != member and pwd.getpwnam(name).pw_gid != pwd.getpwnam(member).pw_gid)
    place.write(f"[agent]\nuid_min = 1\ndeny_users = [{json.dumps(other)}]\ndeny_groups = [{json.dumps(group)}]\n")
    attacker = Attacker(place.config)
    try:
        scan = place.scan_item()
        assert attacker.ask("scan", scan, uid=user_of(other))[1] == f"refused: uid {user_of(other)} is in deny_users"
        assert "is in a group of deny_groups" in attacker.ask("scan", scan, uid=user_of(member))[1]
        assert attacker.ask("scan", scan)[1] is None
        place.write(f"[agent]\nuid_min = {ALICE + 1}\n")
        assert attacker.reload() is None
        assert attacker.ask("scan", scan)[1] == f"refused: uid {ALICE} is below uid_min, {ALICE + 1}"
    finally:
        attacker.close()


@pytest.mark.parametrize(
    ("text", "uid_min"),
    [("UID_MIN\t\t\t 500\n", 500), ("# UID_MIN 5\nUID_MAX 7\n", 1000), ("UID_MIN x\n", 1000), (None, 1000)],
)
def test_the_lowest_uid_of_a_person_is_that_of_login_defs(tmp_path, text, uid_min):
    path = tmp_path / "login.defs"
    if text is not None:
        path.write_text(text)
    assert read_identities(None, (), (), str(path)).uid_min == uid_min
    assert read_identities(7, (), (), str(path)).uid_min == 7


def test_the_policy_is_taken_from_a_trusted_file_and_from_nowhere_else(place):
    attacker = Attacker(place.config)
    try:
        place.write(quota_command=["/bin/sh", "-c", f"echo new >> {place.asked}; echo 1 10"])
        attacker.ask("scan", place.scan_item())
        attacker.send(json.dumps({"id": 91, "reload": True, "policy": {"quota_command": ["id"]}}).encode())
        assert attacker.hear()[1].startswith("refused: ")
        attacker.ask("scan", place.scan_item())
        assert place.asked.read_text().split() == [str(ALICE)] * 2, "the first one holds until a reload"
        assert attacker.reload() is None
        attacker.ask("scan", place.scan_item())
        assert place.asked.read_text().split() == [str(ALICE)] * 2 + ["new"]
        place.asked.write_text("")
        for spoil, undo in SPOILED.values():
            place.write(quota_command=["/bin/sh", "-c", f"echo stolen >> {place.asked}; echo 1 10"])
            spoil(place)
            assert "must belong to root" in attacker.reload()
            undo(place)
        place.write()
        place.config.write_text(place.config.read_text() + "nonsense = 1\n")
        assert "unknown setting" in attacker.reload()
        attacker.ask("scan", place.scan_item())
        assert place.asked.read_text().split() == ["new"], "the policy of before is still in force"
    finally:
        attacker.close()


def lead_elsewhere(place):
    (place.outside / "config.toml").write_text(place.config.read_text())
    place.config.unlink()
    place.config.symlink_to(place.outside / "config.toml")


SPOILED = {
    "owner": (lambda place: os.chown(place.config, ALICE, ALICE), lambda place: os.chown(place.config, 0, 0)),
    "mode": (lambda place: place.config.chmod(0o664), lambda place: place.config.chmod(0o644)),
    "directory": (
        lambda place: os.chown(place.config.parent, ALICE, ALICE),
        lambda place: os.chown(place.config.parent, 0, 0),
    ),
    "link": (lead_elsewhere, lambda place: place.config.unlink()),
}


@pytest.mark.parametrize("name", ["mode", "link"])
def test_the_agent_does_not_start_with_a_file_that_others_may_write(place, name):
    SPOILED[name][0](place)
    attacker = Attacker(place.config)
    assert "must belong to root" in attacker.greeting["refused"]
    assert attacker.process.wait(timeout=allow(20)) == 1
    assert "must belong to root" in attacker.read_log()
    attacker.close()


def test_the_client_says_why_the_agent_keeps_its_configuration(place):
    agent = start_agent(place.config)
    try:
        agent.wait_until_ready()
        agent.reload()
        place.config.chmod(0o666)
        with pytest.raises(AgentReloadError, match="writable by others than root"):
            agent.reload()
    finally:
        agent.close()


def test_one_users_requests_are_limited_and_others_are_not(place):
    place.write("[agent]\nmax_requests_per_minute = 10\n")
    attacker = Attacker(place.config)
    try:
        reasons = [attacker.ask("read_mutes", {"work_dir": str(place.run)})[1]]
        while reasons[-1] is None and len(reasons) < 40:  # one more is allowed every 6 s, which a slow machine may take
            reasons.append(attacker.ask("read_mutes", {"work_dir": str(place.run)})[1])
        assert reasons[10:], "ten are allowed"
        assert reasons[-1] == "refused: more than 10 requests a minute for one user"
        assert attacker.ask("read_mutes", {"work_dir": str(place.run)}, uid=ALICE + 1)[1] is None
        assert f"uid {ALICE}: more than 10 requests a minute" in attacker.read_log()
    finally:
        attacker.close()


def test_a_limit_of_requests_is_there_again_after_a_minute():
    rate = RequestRate()
    assert [rate.take(1, 3, now) for now in (0, 0, 0, 0, 10, 21, 22, 1000, 1000, 1000, 1000)] == [
        *(True, True, True, False),
        *(False, True, False),
        *(True, True, True, False),
    ]
    assert rate.take(2, 3, 1000)
