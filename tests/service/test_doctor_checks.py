"""Single checks of `ckptd doctor`, called with what a host may say of itself."""

import pytest

from ckptd.checkpoints.scanning.mounts import parse_mounts
from ckptd.config import Config
from ckptd.service.doctor import file_checks, host_checks, mount_checks
from ckptd.service.doctor.kernel_features import KernelFeatures


def test_access_times_that_are_never_updated_contradict_a_purge_by_them(tmp_path, monkeypatch):
    table = f"1 0 8:1 / / rw,relatime - ext4 /dev/a rw\n2 1 8:2 / {tmp_path} rw,noatime shared:1 - xfs /dev/b rw\n"
    monkeypatch.setattr(mount_checks, "read_mounts", lambda: parse_mounts(table))
    config = Config.model_validate(
        {"scan": {"allowed_roots": [str(tmp_path)]}, "purge": [{"path": str(tmp_path), "days": 60, "by": "atime"}]}
    )
    (told,) = mount_checks.check_roots(config)
    assert told.verdict == "warning"
    assert "xfs mounted on" in told.text
    assert "noatime" in told.text


def test_denied_users_and_groups_that_do_not_exist_are_warnings():
    settings = Config.model_validate({"agent": {"deny_users": ["slurmm"], "deny_groups": ["dsik"]}})
    told = [(each.verdict, each.text) for each in file_checks.check_accounts(settings) if "agent.deny" in each.text]
    assert told == [
        ("warning", "agent.deny_users: there is no account 'slurmm' on this host"),
        ("warning", "agent.deny_groups: there is no group 'dsik' on this host"),
    ]


@pytest.mark.parametrize(("abi", "verdict"), [(0, "warning"), (1, "warning"), (2, "ok"), (7, "ok")])
def test_a_kernel_without_moves_in_landlock_is_a_warning(monkeypatch, abi, verdict):
    monkeypatch.setattr(host_checks, "read_kernel_features", lambda: KernelFeatures("Linux 5.14", abi, True))
    landlock, seccomp = host_checks.check_kernel(Config())
    assert (landlock.verdict, seccomp.verdict) == (verdict, "ok")
