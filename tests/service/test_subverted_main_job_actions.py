"""The main process in an attacker's hands: nothing is done to a job but what the configuration allows."""

import json
import os

import pytest

from service.subverted_main import ACTIONS, JOB, NO_ACTIONS, PERSON, SCRIPT, Attacker, every_operation, make_place

VERIFICATIONS = (
    "submit_verification",
    "submit_digests",
    "submit_scan",
    "follow_verification",
    "collect_verification",
    "collect_digests",
    "cancel_verification",
)
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def shared_jobs():
    """A site where PERSON counts as a person, with an agent that finds the site's own programs of Slurm."""
    with make_place() as made:
        made.write(NO_ACTIONS + ACTIONS)
        attacker = Attacker(made.config)
        yield made, attacker
        attacker.close()


@pytest.fixture
def job_site(shared_jobs):
    shared_jobs[0].be_slurm()
    return shared_jobs[0]


@pytest.fixture
def job_attacker(shared_jobs):
    return shared_jobs[1]


def test_actions_on_jobs_are_carried_out_by_the_agents_own_command_lines(job_site, job_attacker):
    asked = every_operation(job_site)
    assert job_attacker.ask("reach", asked["reach"], uid=PERSON) == ({0: {}}, None)
    assert job_attacker.ask("read_submission", asked["read_submission"], uid=PERSON)[0][0] == {
        "script": SCRIPT,
        "line": "sbatch -c3",
    }
    assert job_attacker.ask("signal_job", asked["signal_job"], uid=PERSON)[0][0] == {}
    assert job_attacker.ask("hold_job", asked["hold_job"], uid=PERSON)[0][0] == {}
    job_site.facts.write_text(json.dumps({**job_site.job, "State": "TIMEOUT"}))
    answer = job_attacker.ask("resubmit_job", asked["resubmit_job"], uid=PERSON)[0][0]
    assert answer["output"] == "99\n"
    signal, hold, submission = job_site.changing_calls()
    assert signal["argv"] == ["scancel", "--signal=USR1", "--state=RUNNING", "--batch", "7"]
    assert hold["argv"] == ["scontrol", "requeuehold", "7"]
    assert submission["input"] == SCRIPT
    assert submission["argv"] == answer["argv"]
    assert {"--cpus-per-task=3", f"--chdir={job_site.run}", "--comment=ckptd-resubmit=1.0123456789abcdef"} <= {
        *submission["argv"]
    }


@pytest.mark.parametrize("operation", ["read_submission", "signal_job", "hold_job", "resubmit_job"])
@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ["sbatch", "--wrap=id"]},
        {"input": "#!/bin/sh\nid\n"},
        {"script": "#!/bin/sh\nid\n"},
        {"directory": "/"},
        {"partitions": ["*"]},
        {"max_resubmits": 99},
        {"job_id": "7 --wrap=id"},
        {"job_id": "--help"},
        {"job_id": 0},
        {"job_id": 2**32},
        {"array_task_id": "1,2"},
        {"array_job_id": -1},
        {"restart_count": None},
    ],
)
def test_no_command_line_and_no_script_comes_from_a_request(job_site, job_attacker, operation, changes):
    answers, _ = job_attacker.ask(operation, {**every_operation(job_site)[operation], **changes}, uid=PERSON)
    assert answers[0]["unknown"].startswith(f"{operation}: ")
    assert job_site.calls.read_text() == ""


@pytest.mark.parametrize("operation", ["signal_job", "hold_job", "resubmit_job"])
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"UserID": str(PERSON + 1)}, "does not belong to uid"),
        ({"UserID": "0"}, "does not belong to uid"),
        ({"Partition": "cpu"}, "does not allow this action in partition"),
        ({"Partition": "gpu1,cpu"}, "does not allow this action in partition"),
        ({"Partition": "(null)"}, "does not allow this action in partition"),
        ({"JobID": "8"}, "shows another job"),
        ({"RestartCnt": "x"}, "a restart count of"),
    ],
)
def test_an_action_needs_the_jobs_owner_and_a_partition_of_the_configuration(
    job_site, job_attacker, operation, facts, reason
):
    job_site.be_slurm(**{"State": "TIMEOUT" if operation == "resubmit_job" else "RUNNING", **facts})
    answers, _ = job_attacker.ask(operation, every_operation(job_site)[operation], uid=PERSON)
    assert reason in answers[0]["failed"]
    assert job_site.changing_calls() == []


@pytest.mark.parametrize(
    ("operation", "changes", "told"),
    [
        ("signal_job", {"signal": "USR1 --user=bob"}, "is no signal"),
        ("signal_job", {"signal": "--user=bob"}, "is no signal"),
        ("signal_job", {"signal": ""}, "is no signal"),
        ("signal_job", {"signal": "B:B:USR1"}, "is no signal"),
        ("signal_job", {"signal": "USR1\n"}, "is no signal"),
        ("resubmit_job", {"mark": "x"}, "is not allowed"),
        ("resubmit_job", {"mark": "0123456789abcdef --wrap=id"}, "is not allowed"),
        ("resubmit_job", {"number": 4}, "max_resubmits is 3"),
        ("resubmit_job", {"number": 0}, "is not allowed"),
        ("resubmit_job", {}, "has not ended"),
    ],
)
def test_hostile_values_of_an_action_do_nothing(job_site, job_attacker, operation, changes, told):
    answers, _ = job_attacker.ask(operation, {**every_operation(job_site)[operation], **changes}, uid=PERSON)
    assert told in answers[0].get("unknown", answers[0].get("failed"))
    assert job_site.changing_calls() == []


@pytest.mark.parametrize("operation", ["read_submission", "signal_job", "hold_job", "resubmit_job"])
def test_without_a_partition_in_the_configuration_no_action_is_carried_out(place, operation):
    place.write(NO_ACTIONS)
    place.be_slurm(State="TIMEOUT" if operation == "resubmit_job" else "RUNNING")
    attacker = Attacker(place.config)
    try:
        for job in (JOB, {**JOB, "job_id": 2**26 + 7}):  # the second one is of a federation
            answers, _ = attacker.ask(operation, {**every_operation(place)[operation], **job}, uid=PERSON)
            assert "the configuration" in answers[0].get("unknown", answers[0].get("failed"))
        assert place.changing_calls() == []
    finally:
        attacker.close()


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        *(
            (operation, {"ticket": ticket})
            for operation in VERIFICATIONS
            for ticket in ("0" * 15 + ",", "../" * 5, "", 7)
        ),
        *((operation, {"jobs": {"partition": "gpu1"}}) for operation in VERIFICATIONS),
        ("submit_verification", {"partition": "gpu1"}),
        ("submit_verification", {"python": "/bin/sh"}),
        ("submit_verification", {"numbers": [-1]}),
        ("submit_verification", {"numbers": ["0%99"]}),
        ("submit_verification", {"tasks": ["checkpoint-3"]}),
        ("submit_verification", {}),  # the site names no partition
        ("submit_digests", {"tasks": [[{"directory": "/scratch", "files": [["a", 1]], "jobs": {}}]]}),
        ("submit_digests", {"tasks": [[{"directory": "/scratch", "files": [["a", -1]]}]]}),
        ("submit_digests", {"tasks": [[["a"]]]}),
        ("submit_digests", {}),
        ("submit_scan", {"python": "/bin/sh"}),
        ("submit_scan", {"task_count": 0}),
        ("submit_scan", {"seconds": 9}),
        ("submit_scan", {}),
        ("collect_verification", {"task": -1}),
        ("cancel_verification", {"job_id": "7 8"}),
    ],
)
def test_no_verification_job_is_but_what_the_site_allows(job_site, job_attacker, operation, changes):
    answers, _ = job_attacker.ask(operation, {**every_operation(job_site)[operation], **changes}, uid=PERSON)
    assert answers[0]["unknown"].startswith((f"{operation}: ", "the configuration names no partition"))
    assert job_site.calls.read_text() == ""


def test_a_job_that_is_no_verification_job_is_not_cancelled_as_one(job_site, job_attacker):
    item = {"ticket": "0123456789abcdef", "job_id": 7}
    answers, _ = job_attacker.ask("cancel_verification", item, uid=PERSON)
    assert answers[0]
    (call,) = [json.loads(line) for line in job_site.calls.read_text().splitlines()]
    assert call["argv"][0] == "squeue"
    assert "--name=ckptd-verify-0123456789abcdef" in call["argv"]
    assert job_site.changing_calls() == []
