"""The service under a real systemd: a container whose first process it is, with the unit as shipped."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from demo.patience import allow
from integration.systemd import debian_tree

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "systemd"
WITHOUT_A_LINE = "accounting has no submit line of the job: options given only there are lost, such as --signal"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", target, ROOT],
        check=True,
    )
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def facts(wheel, tmp_path_factory):
    """What the script inside found out."""
    out = tmp_path_factory.mktemp("out")
    binds = {
        HERE: "/test",
        wheel.parent: "/wheel",
        ROOT / "deploy": "/deploy",
        Path(sysconfig.get_path("purelib")): "/dependencies",
        HERE / "ckptd-test.service": "/etc/systemd/system/ckptd-test.service",
    }
    argv = ["systemd-nspawn", "--quiet", "--volatile=overlay", "--register=no", "--keep-unit", "--private-network"]
    argv += ["--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self"]  # a host has them
    argv += ["--console=pipe", f"--bind={out}:/out"]
    argv += [f"--bind-ro={source}:{target}" for source, target in binds.items()]
    environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
    with (out / "console").open("wb") as console, debian_tree.lend() as tree:
        subprocess.run(
            [*argv, f"--directory={tree}", "--boot", "systemd.wants=ckptd-test.service"],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            env=environment,
            check=False,
            timeout=allow(240),
        )
    assert (out / "facts.json").exists(), (out / "console").read_text(errors="replace")[-3000:]
    found = json.loads((out / "facts.json").read_text())
    assert "failed" not in found, f"{found['failed']}\n{found['journal'][-3000:]}"
    return found


def test_the_wheel_carries_the_migrations_and_the_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "ckptd/migrations/env.py" in names
    assert any(name.startswith("ckptd/migrations/versions/0001") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_unit_has_no_error_that_systemd_can_see(facts):
    assert facts["verify"] == ""


def test_it_is_active_only_once_it_says_that_it_is_ready(facts):
    assert facts["active_after_start"] == "active"
    assert "watched" in facts["status_text"]
    assert 'ckptd_slurm_up{cluster="boxed"} 1.0' in facts["metrics"]
    assert facts["jobs"]["polled_at"]


def test_the_main_process_keeps_no_privilege_and_the_helpers_do(facts):
    uid = str(facts["ckptd_uid"])
    assert facts["main"]["Uid"].split() == [uid] * 4
    assert int(facts["main"]["CapEff"], 16) == 0
    assert set(facts["children"]) == {"ckptd.service.agent_process", "ckptd.checkpoints.agent.watcher"}
    assert all(child["Uid"].split() == ["0"] * 4 for child in facts["children"].values())
    assert facts["state_directory"] == "ckptd 750"


def test_killed_it_starts_again_and_leaves_no_helper(facts):
    assert facts["helpers_left"] == []


def test_a_reload_takes_a_good_configuration_and_survives_a_wrong_one(facts):
    assert facts["is_reload_refused"]
    assert facts["same_after_reload"]
    assert "configuration reload failed" in facts["journal"]


def test_hung_it_is_started_again_by_the_watchdog(facts):
    assert facts["result_of_watchdog"]


def test_it_signals_holds_and_submits_as_a_jobs_user_from_within_its_sandbox(facts):
    first, second = facts["jobs_of_acts"]["goes-on"], facts["began"][1].split()[0]
    assert facts["acts"] == [
        f"hold-job: job {facts['jobs_of_acts']['looping']} of 'alice': 'done'",
        f"resubmit-job: job {first} of 'alice': 'submitted job {second}; {WITHOUT_A_LINE}'",
        f"signal-job: job {facts['jobs_of_acts']['signalled']} of 'alice': 'done'",
    ]
    assert facts["began"] == [f"{first} {facts['alice_uid']} 0 one", f"{second} {facts['alice_uid']} 1 one"]
    assert facts["next_job"]["UserId"] == f"alice({facts['alice_uid']})"
    assert facts["next_job"]["CPUs/Task"] == "2"
    assert facts["next_job"]["WorkDir"] == "/home/alice/goes-on"


def test_a_job_in_a_loop_waits_held_with_a_summary_by_slurms_administrator(facts):
    assert (facts["looping"]["JobState"], facts["looping"]["Priority"]) == ("PENDING", "0")
    assert facts["looping"]["Reason"] in {"job_requeued_in_held_state", "JobHeldUser"}  # it ran, or waited for a start
    assert set(facts["summaries"]) == {"'done'"}


def test_it_stops_within_five_seconds(facts):
    assert facts["seconds_to_stop"] < 5
    assert facts["result_of_stop"] == "success"
    assert facts["active_after_stop"] == "inactive"


def test_the_unit_is_hardened_and_each_remaining_point_is_explained():
    unit = ROOT / "deploy/systemd/ckptd.service"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:]
    points = {line.split()[1]: line.split()[-1] for line in done.stdout.splitlines() if line.startswith("✗")}
    assert points
    page = (ROOT / "docs/hardening.md").read_text().replace("\\|", "|")
    explained = dict(re.findall(r"^\| `(\S+)` \| (\d\.\d) \|", page, re.MULTILINE))
    assert explained == points


def test_the_agent_finds_all_protections_of_the_kernel_under_the_unit(facts):
    assert "Started" in facts["journal"]
    assert not re.findall("agent: (?:Landlock|the kernel has Landlock|there is no seccomp).*", facts["journal"])


def test_the_unit_lets_children_confine_themselves():
    """@system-service of systemd lacks Landlock's calls."""
    text = (ROOT / "deploy/systemd/ckptd.service").read_text()
    allowed = {name for line in re.findall(r"^SystemCallFilter=(.*)", text, re.MULTILINE) for name in line.split()}
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= allowed
