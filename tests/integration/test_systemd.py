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
WITHOUT_A_LINE = "accounting has no submit line of the job before it"


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
        ROOT / "tests": "/tests",
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
    assert set(facts["children"]) == {"ckptd.service.agent_process", "ckptd.service.watcher_process"}
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


def find_entry(facts, message):
    """Return the fields of the journal's first entry that begins like this."""
    return next(entry for entry in facts["entries"] if entry["MESSAGE"].startswith(message))


def test_the_journal_has_priorities_and_fields(facts):
    jobs = facts["jobs_of_acts"]
    about = {"USER": "alice", "SYSLOG_IDENTIFIER": "ckptd"}
    looping = find_entry(facts, "flag restart-loop opened")
    assert looping.pop("MESSAGE") == f"flag restart-loop opened: job {jobs['looping']} of 'alice'"
    run = {"RUN": "/home/alice/looping/ckpt", "JOB": jobs["looping"], "RULE": "restart-loop", "STEP": "decide"}
    assert looping == {**about, **run, "PRIORITY": "4"}
    signalled = find_entry(facts, "signal-job")
    assert signalled.items() >= {**about, "JOB": jobs["signalled"], "STEP": "act"}.items()
    assert find_entry(facts, "daemon started")["PRIORITY"] == "6"
    assert find_entry(facts, "configuration reload failed")["PRIORITY"] == "3"


def test_it_writes_json_lines_where_that_is_asked_for(facts):
    lines = facts["json_lines"]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    assert "daemon started" in lines[0]["message"]


def test_a_heartbeat_leaves_its_sandbox(facts):
    assert set(facts["heartbeats"]) == {"/heartbeat"}


def test_an_agent_that_is_stopped_ends_the_daemon_within_the_documented_time(facts):
    """60 s of silence (docs/runbook.md), then the end, the restart, and what a busy machine adds."""
    assert 55 < facts["seconds_of_silence"] < 60 + allow(25)
    assert "agent has not answered for 60 s" in str(facts["json_lines"])
    assert not facts["is_silent_agent_left"]


def test_a_subverted_main_process_gets_nothing_by_itself(facts):
    found = facts["attacks"]
    assert found["readable_as_root"] == found["readable_as_service"] == []
    assert set(found["by_itself"].values()) == {"r"}, found["by_itself"]
    assert facts["left_by_attacks"] == []


def test_a_subverted_main_process_gets_nothing_from_the_agent_beyond_the_configuration(facts):
    found = facts["attacks"]
    assert (found["as_others"], found["other_commands"], found["outside"]) == ([], [], [])
    assert (found["command_runs_before"], found["calls_of_slurm"]) == ("", "")
    assert (found["quota_left_bytes"], len(found["command_runs"].split())) == (9, 1), "what is allowed, is done"
    assert "checkpoint-3" in found["found"]


def test_a_subverted_parser_gets_no_file_outside_no_socket_and_no_program(facts):
    found = facts["attacks"]
    assert found["kernel_lacks"] == []
    hidden = {"read_the_parents_memory", "read_the_parents_environment"}  # by ProtectProc
    assert {name: outcome for name, outcome in found["parser"].items() if outcome != "r"} == dict.fromkeys(hidden, "n")
    assert {"read_a_file_outside", "open_a_unix_socket", "start_a_program"} <= found["parser"].keys()


def test_the_unit_is_hardened_and_each_remaining_point_is_explained():
    unit = ROOT / "deploy/systemd/ckptd.service"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:]
    [rated] = re.findall(r"exposure level for ckptd.service: (\d\.\d)", done.stdout)
    assert f"rates the unit {rated}" in (ROOT / "docs/hardening.md").read_text()
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
