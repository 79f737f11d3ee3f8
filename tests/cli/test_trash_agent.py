"""The small agent of `ckptd trash`: it does what the daemon's agent does with trashes, and starts faster."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.client import AgentClient, Batch
from ckptd.checkpoints.trash import EntryState, TrashResult
from ckptd.checkpoints.trash.trash_operations import OPERATIONS
from ckptd.config import ConfigError
from ckptd.core.model import Unknown
from ckptd.service import agent_policy, agent_process, trash_agent_process
from ckptd.service.agent_options import PERSON
from cli.six_checkpoints import trained_shop
from cli.test_retention_commands import Desk
from config.test_listing_settings import SAMPLES
from demo.patience import allow

DEADLINE = timedelta(seconds=30)
STRICT = """
import sys
from ckptd.service import trash_agent_process


class NoFiles:
    def find_spec(self, name, path=None, target=None):
        raise PermissionError(f"a child that became a user could not import {name}")


serve = trash_agent_process.process.serve


def serve_strictly(*arguments):
    sys.meta_path.insert(0, NoFiles())
    serve(*arguments)


trash_agent_process.process.serve = serve_strictly
trash_agent_process.main()
"""


@pytest.fixture
def desk():
    with trained_shop() as shop:
        opened = Desk(shop)
        opened.command("prune", "--apply", "--plan", opened.json("plan")["plan"])
        yield opened


def run(desk, *words):
    command = [sys.executable, "-m", "ckptd", "--config", str(desk.config), "trash", *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=allow(120), env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_trash_is_listed_restored_and_emptied_by_the_programs_that_people_start(desk):
    held = json.loads(run(desk, "list", "--json"))["trash"]
    assert [each["id"] for each in held] == [each["id"] for each in desk.json("trash", "list")["trash"]]
    first, second, *others = held
    assert "1 of 1 restored" in run(desk, "restore", first["id"])
    assert "1 of 1 deleted" in run(desk, "empty", second["id"], "--directory", desk.shop.directory)
    left = desk.json("trash", "list", desk.shop.directory)["trash"]
    assert [each["id"] for each in left] == [each["id"] for each in others]
    assert os.path.exists(first["path"])


def test_its_children_import_nothing_after_they_became_the_owner(desk, tmp_path, monkeypatch):
    (tmp_path / "strict_agent.py").write_text(STRICT)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    agent = AgentClient("strict_agent", [PERSON, str(desk.config)])
    try:
        agent.wait_until_ready()
        places = trash_client.places_of([desk.shop.run])
        entries = [entry for found in trash_client.list_trash(agent, places, DEADLINE) for entry in found.entries]
        first, second, *_ = entries
        place = trash_client.TrashLocation(first.uid, first.place)
        restored = trash_client.restore(agent, place, first.act_id, DEADLINE)
        assert (restored.result, restored.reason) == (TrashResult.RESTORED, None)
        assert trash_client.look_up(agent, desk.shop.run, first.act_id, DEADLINE) is None
        assert trash_client.look_up(agent, desk.shop.run, second.act_id, DEADLINE) is EntryState.HELD
        [[answer]] = agent.run([Batch(uid=first.uid, operation="find_workspaces", items=({"directory": "/"},),
                                      deadline_seconds=9)])  # fmt: skip
        assert isinstance(answer, Unknown), "it knows of nothing but trashes"
    finally:
        agent.close()


def test_its_operations_are_those_of_the_daemons_agent():
    assert OPERATIONS.items() <= agent_process.OPERATIONS.items()
    assert {name for name in agent_process.OPERATIONS if "trash" in name} <= OPERATIONS.keys()


NETWORK = ("email", "http", "requests", "ssl", "urllib.request")
HEAVY = ("ckptd.checkpoints.formats", "ckptd.config.root", "ckptd.store", "numpy", "pydantic", "sqlalchemy", "yaml")


@pytest.mark.parametrize(
    ("program", "without"),
    [("trash_agent_process", (*HEAVY, *NETWORK)), ("agent_process", ("pydantic", "sqlalchemy", *NETWORK))],
)
def test_a_privileged_program_imports_nothing_that_it_can_do_without(program, without):
    report = f"import json, sys, ckptd.service.{program}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True, timeout=allow(60))
    imported = json.loads(done.stdout)
    assert [name for name in imported if f"{name}.".startswith(tuple(f"{each}." for each in without))] == []


LIMITS = {
    "roots": '[scan]\nallowed_roots = ["/data", "/scratch/"]\n',
    "one root without a list": '[scan]\nallowed_roots = "/data"\n',
    "users": '[agent]\nuid_min = 500\ndeny_users = ["root"]\ndeny_groups = []\n',
    "a number in quotes": '[agent]\nuid_min = "500"\n',
    "a uid too low": "[agent]\nuid_min = 0\n",
    "a user that is no text": "[agent]\ndeny_users = [5]\n",
    "an unknown key": "[agent]\nuid_mim = 500\n",
    "a hold": '[retention]\nhold = "90m"\n[slurm]\ncluster = "c"\n',
    "no hold": '[retention]\nhold = "0s"\n',
}


@pytest.mark.parametrize("text", (SAMPLES | LIMITS).values(), ids=SAMPLES | LIMITS)
@pytest.mark.parametrize("environment", [{}, {"CKPTD_AGENT__UID_MIN": "77"}], ids=str)
def test_it_may_do_for_people_what_the_daemons_agent_may(text, environment, tmp_path, monkeypatch):
    monkeypatch.setattr(agent_policy, "check_trusted", lambda path: None)
    monkeypatch.setattr(trash_agent_process, "check_trusted", lambda path: None)
    path = tmp_path / "config.toml"
    path.write_text(text)
    found = []
    for read in (agent_policy.read_policy, trash_agent_process.read_policy):
        try:
            policy = (
                read(path, environment)
                if read is trash_agent_process.read_policy
                else read(path, environment, is_person=True)
            )
            found.append((policy.identities, policy.allowed_roots, policy.is_person))
        except ConfigError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked whether it trusts a file")
def test_it_takes_its_limits_from_no_file_that_others_may_write(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match=r"config\.toml: it is writable by others than root \(mode 666\)"):
        trash_agent_process.read_policy(path, {})
