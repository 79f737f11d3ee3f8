"""Runs in the daemon's place under the shipped unit: a main process in an attacker's hands, with the agent beside it.

With `prepare`, makes what is attacked, in the directory SITE. With `attack`, starts the agent as the daemon does,
becomes the service's user, tries everything, and writes what came of it into the state directory.
"""

import json
import os
import pwd
import signal
import socket
import sys
from pathlib import Path

from checkpoints.parser_attacks import NEW_USER_NAMESPACE, SubvertedFormat, call, read_outcome, try_one
from ckptd.checkpoints.agent import confinement
from ckptd.service.agent_process import OPERATIONS
from ckptd.service.privileges import become_service_user
from service.subverted_main import (
    ALICE,
    JOB_OPERATIONS,
    Attacker,
    Place,
    ask_outside,
    assert_empty,
    every_operation,
)
from support import trash_facts

SITE = Path("/srv/attacked")
STATE = Path("/var/lib/ckptd")
AGENT = Path(__file__).with_name("subverted_agent.py")
SECRETS = ("/etc/shadow", "/etc/munge/munge.key", "/root/.profile")
SPOILED = ({"quota_command": ["/bin/sh"]}, {"allowed_roots": ["/"]}, {"argv": ["id"]}, {"script": "#!/bin/sh\nid\n"})


def prepare():
    site = Place(SITE).make()
    (site.run / "1.subverted").write_bytes(b"content")
    (site.outside / "secret").write_bytes(b"secret")
    (site.run / "link").symlink_to(site.outside / "secret")
    (site.outside / "run").mkdir()
    for number in (1, 2):
        trash_facts.write(site.outside / "run", "file", number, uid=ALICE)
    for path in (site.run / "1.subverted", site.outside / "run", site.outside / "secret"):
        os.chown(path, ALICE, ALICE)
    (site.root / "link").symlink_to(site.outside)


class MainProcess:
    """What the code of a main process would try by itself."""

    def __init__(self, agent):
        self.agent = agent

    def become_root(self):
        os.setuid(0)

    def become_munge(self):
        os.setuid(pwd.getpwnam("munge").pw_uid)

    def stop_the_agent(self):
        os.kill(self.agent, signal.SIGSTOP)

    def trace_the_agent(self):
        call("ptrace", 16, self.agent, 0, 0)

    def write_the_configuration(self):
        Path("/etc/ckptd/config.toml").open("a").close()

    def install_a_service(self):
        Path("/etc/systemd/system/attack.service").write_text("")

    def write_into_a_home(self):
        Path("/home/alice/attack").write_text("")

    def write_into_the_users_run(self):
        (SITE / "scratch/run/attack").write_text("")

    def make_a_namespace(self):
        call("unshare", NEW_USER_NAMESPACE)

    def load_a_program_into_the_kernel(self):
        call("bpf", 0, bytes(128), 128)

    def see_the_network(self):
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()


def try_all(attacks):
    return {name: try_one(getattr(attacks, name)) for name in vars(type(attacks)) if not name.startswith("_")}


def list_readable():
    """Return the secrets of which this process reads a byte: root can open the empty file that hides one."""
    return [path for path in SECRETS if try_one(lambda path=path: Path(path).read_bytes()[0]) == "!"]


def ask_as_others(site, attacker):
    """Ask for each operation as accounts that no job has; return the answers that are no refusal."""
    uids = [0, 1, 999, *(pwd.getpwnam(name).pw_uid for name in ("munge", "slurm", "ckptd", "nobody"))]
    items = every_operation(site)
    asked = {(name, uid): attacker.ask(name, items[name], uid=uid) for name in items for uid in uids}
    return [str(each) for each in asked.items() if each[1][0] or not each[1][1].startswith("refused: ")]


def ask_for_other_commands(site, attacker):
    """Bring commands, scripts and limits along; return the answers that are not a refusal of the field."""
    found = []
    for name, item in every_operation(site).items():
        for field in SPOILED:
            (answer,) = attacker.ask(name, {**item, **field})[0].values()
            if answer != {"unknown": f"{name}: unknown field {next(iter(field))!r}"}:
                found.append(f"{name} {field}: {answer}")
    return [*found, *(name for name in ("shell", "quota", "__class__") if attacker.ask(name, {})[0])]


def ask_about_outside(site, attacker):
    """Return the operations that read or changed something outside of the allowed roots."""
    found = []
    for name in sorted(set(OPERATIONS) - set(JOB_OPERATIONS)):
        for named in (f"{site.outside}", f"{site.root}/link", f"{site.root}/../outside"):
            answers, reason = attacker.ask(name, ask_outside(site, name, named))
            try:
                assert reason is None
                assert_empty(name, answers[0])
            except AssertionError as error:
                found.append(f"{name} {named}: {error} {reason} {answers}")
    return found


def attack():
    site = Place(SITE)
    facts = {"kernel_lacks": confinement.list_missing(), "readable_as_root": list_readable()}
    attacker = Attacker(site.config, [str(AGENT), str(SITE)], is_limited=False)
    become_service_user("ckptd", STATE)
    facts["readable_as_service"] = list_readable()
    facts["by_itself"] = try_all(MainProcess(attacker.process.pid))
    facts["as_others"] = ask_as_others(site, attacker)
    facts["other_commands"] = ask_for_other_commands(site, attacker)
    facts["command_runs_before"] = site.asked.read_text()
    facts["outside"] = ask_about_outside(site, attacker)
    answer = attacker.ask("scan", site.scan_item())[0][0]
    facts["quota_left_bytes"] = answer["quota_left_bytes"]
    facts["command_runs"] = site.asked.read_text()
    found = {Path(each["path"]).name: each for each in answer["checkpoints"]}
    facts["found"] = sorted(found)
    facts["parser"] = read_outcome(json.dumps(found[f"1.{SubvertedFormat.name}"]))
    facts["calls_of_slurm"] = site.calls.read_text()
    facts["log"] = attacker.read_log()
    attacker.close()
    (STATE / "attacks.json").write_text(json.dumps(facts))


{"prepare": prepare, "attack": attack}[sys.argv[1]]()
