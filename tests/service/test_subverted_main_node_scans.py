"""The main process in an attacker's hands: no step runs in a job but what the configuration allows."""

import itertools
import json
import os
import time

import pytest

from ckptd.checkpoints.agent import node_scan_turns
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.core.node_scans import step_result
from ckptd.core.node_scans.step_policy import NodeScanPolicy
from service.subverted_main import ALICE, ENFORCED, JOB, NO_ACTIONS, PERSON, Attacker, every_operation, make_place

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
SETTINGS = """
[node_scans]
directories = ["/local"]
partitions = ["gpu*"]
interval = "30m"
time_limit = "10s"
max_running = 1
python = "/opt/ckptd/bin/python3"
"""
NOTHING = {"checkpoints": [], "problems": [], "free_bytes": 5, "total_bytes": 9, "filesystem_type": "tmpfs"}
ITEM = {**JOB, "directory": "/local/alice"}


@pytest.fixture(scope="module")
def shared_site():
    with make_place() as made:
        made.write(NO_ACTIONS + SETTINGS, allowed_roots=["/local", str(made.root)])
        yield made


@pytest.fixture(scope="module")
def shared_attacker(shared_site):
    attacker = Attacker(shared_site.config)
    yield attacker
    attacker.close()


class Client:
    """The attacker, who asks about another job in each test: the agent remembers those in which there was a step."""

    numbers = itertools.count(7)

    def __init__(self, site, attacker):
        self.site, self.attacker = site, attacker
        self.item = {**ITEM, "job_id": next(self.numbers)}

    def tell(self, **facts):
        """Let Slurm tell of this job."""
        answer = f"echo '{json.dumps({'version': 1, **NOTHING})}'"
        self.site.be_slurm(**{"JobID": str(self.item["job_id"]), "srun": answer, **facts})

    def ask(self, **changes):
        answers, reason = self.attacker.ask("scan_on_node", {**self.item, **changes}, uid=PERSON)
        return answers.get(0, {"unknown": reason})


@pytest.fixture
def site(shared_site):
    return shared_site


@pytest.fixture
def attacker(site, shared_attacker):
    client = Client(site, shared_attacker)
    client.tell()
    return client


def test_a_step_is_of_the_sites_own_form_and_runs_as_the_owner(site, attacker):
    answer = attacker.ask()
    assert answer["result"] == {"version": 1, **NOTHING}
    assert (answer["node"], answer["node_count"]) == ("n7", 1)
    [call] = site.changing_calls()
    assert call["uid"] == PERSON
    *options, python, isolated, module, name, request = call["argv"]
    assert options[:2] == ["srun", "--overlap"]
    wanted = f"jobid={attacker.item['job_id']} nodes=1 ntasks=1 nodelist=n7 mem=0 gres=none time=1 chdir=/"
    assert {f"--{each}" for each in (*wanted.split(), "propagate=NONE", "export=NONE")} <= set(options)
    assert (python, isolated, module, name) == (
        "/opt/ckptd/bin/python3", "-I", "-m", "ckptd.checkpoints.node_steps.scan_task",
    )  # fmt: skip
    assert json.loads(request)["directory"] == "/local/alice"


@pytest.mark.parametrize(
    "changes",
    [
        {"job_id": "7 --uid=0"},
        {"job_id": -1},
        {"restart_count": None},
        {"directory": 3},
        {"directory": "/local/\0"},
        {"argv": ["id"]},
        {"steps": {"python": "/bin/sh"}},
        {"python": "/bin/sh"},
        {"partitions": ["*"]},
        {"nodelist": "n8"},
        {"node": "n8"},
        {"time": 600},
    ],
)
def test_no_option_and_no_program_comes_from_a_request(site, attacker, changes):
    assert attacker.ask(**changes)["unknown"].startswith("scan_on_node: ")
    assert site.calls.read_text() == ""


@pytest.mark.parametrize(
    "directory",
    ["/home/alice", "/", "/localx", "/local/../etc", "/local/./a", "local/a", "", "//local/a", "/local/a/"],
)
def test_only_locations_that_the_configuration_names_are_scanned(site, attacker, directory):
    assert "the configuration does not name this location" in attacker.ask(directory=directory)["unknown"]
    assert site.calls.read_text() == ""


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"UserID": "0"}, "does not belong to uid"),
        ({"UserID": str(PERSON + 1)}, "does not belong to uid"),
        ({"Partition": "cpu"}, "does not allow this action in partition"),
        ({"Partition": "gpu1,cpu"}, "does not allow this action in partition"),
        ({"JobID": "9999"}, "shows another job"),
        ({"State": "PENDING"}, "no longer runs"),
        ({"State": "COMPLETED"}, "no longer runs"),
        ({"RestartCnt": "1"}, "no longer runs"),
        ({"BatchHost": "n7 --uid=0"}, "as the node of the job"),
        ({"BatchHost": "-x"}, "as the node of the job"),
        ({"NumNodes": "x"}, "as the node of the job"),
    ],
)
def test_a_step_needs_a_running_job_of_its_owner_in_a_partition_of_the_configuration(site, attacker, facts, reason):
    attacker.tell(**facts)
    assert reason in attacker.ask()["unknown"]
    assert site.changing_calls() == []


def test_there_is_one_step_in_an_attempt_within_half_an_interval_and_one_in_a_request(site, attacker):
    assert "result" in attacker.ask()
    for again in ({}, {"directory": "/local/bob"}):
        assert f"there was a step in job {attacker.item['job_id']}" in attacker.ask(**again)["unknown"]
    two = attacker.item, {**attacker.item, "job_id": 9999}
    answers, reason = attacker.attacker.ask("scan_on_node", *two, uid=PERSON)
    assert (answers, reason) == ({}, "refused: a request asks for one step in one job")
    assert len(site.changing_calls()) == 1


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("exit 3", "srun ended with 3"),
        ("echo srun: error: Unable to create step >&2; exit 1", "Unable to create step"),
        ("echo nonsense", "no JSON"),
        ("head -c 99000000 /dev/zero", "more than"),
        ("yes", "more than"),
        ("true", "no JSON"),
        ('echo \'{"version": 1, "unknown": "Permission denied"}\'', "could not read it: Permission denied"),
        ("kill -9 $$", "srun ended with -9"),
    ],
)
def test_what_is_no_result_is_a_reason(site, attacker, program, reason):
    attacker.tell(srun=program)
    answer = attacker.ask()
    assert reason in answer["failed"]
    assert answer["seconds"] >= 0
    assert "result" not in answer


def test_a_step_that_hangs_is_ended_and_what_it_started_too(site, attacker):
    attacker.tell(srun=f"trap '' TERM; sleep 1234 & echo $! > {site.asked}; echo $$ >> {site.asked}; wait; sleep 1234")
    began = time.monotonic()
    answers, reason = attacker.attacker.ask("scan_on_node", attacker.item, uid=PERSON, deadline_seconds=3)
    assert (answers, reason) == ({}, "it did not answer in time")
    assert time.monotonic() - began < 60
    deadline = time.monotonic() + 20
    left = site.asked.read_text().split()
    assert len(left) == 2
    while any(is_alive(each) for each in left):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_alive(process_id):
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_without_a_partition_in_the_configuration_no_step_runs(place):
    place.write(NO_ACTIONS + SETTINGS.replace('"gpu*"', ""), allowed_roots=["/local"])
    place.be_slurm()
    attacker = Attacker(place.config)
    try:
        answers, _ = attacker.ask("scan_on_node", ITEM, uid=PERSON)
        assert "the site's configuration allows no step there" in answers[0]["unknown"]
        assert place.calls.read_text() == ""
    finally:
        attacker.close()


def test_nothing_below_a_location_that_only_nodes_see_is_moved(place):
    """Whatever is here by the same name: what a step says of it comes from its owner."""
    more = f'{ENFORCED}\n[node_scans]\ndirectories = ["{place.root}"]\n'
    place.write(more)
    attacker = Attacker(place.config)
    try:
        item = every_operation(place)["move_aside"]
        for named in (item["directory"], f"{place.root}/./run", f"{place.root}/../scratch/run"):
            answers, _ = attacker.ask("move_aside", {**item, "directory": named}, uid=ALICE)
            [outcome] = answers[0].get("outcomes") or [answers[0]]
            assert outcome.get("result") != "moved", outcome
        assert (place.run / "checkpoint-3").exists()
        assert "only the nodes of jobs see its directory" in str(attacker.ask("move_aside", item, uid=ALICE)[0])
    finally:
        attacker.close()


def test_the_schema_of_this_test_is_that_of_the_program():
    assert step_result.decode_result({"version": 1, **NOTHING}, "/local/alice", PERSON).free_bytes == 5


def test_no_more_steps_run_at_once_than_the_configuration_allows():
    policy = RequestPolicy(node_scans=NodeScanPolicy(partitions=("*",), max_running=2))
    request = {"operation": "scan_on_node"}
    assert not node_scan_turns.must_wait(request, ["scan", "scan_on_node"], policy)
    assert node_scan_turns.must_wait(request, ["scan_on_node", "scan", "scan_on_node"], policy)
    assert not node_scan_turns.must_wait({"operation": "scan"}, ["scan_on_node"] * 8, policy)
