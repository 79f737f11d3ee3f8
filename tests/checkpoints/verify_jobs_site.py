"""Real checkpoints of a Linux user, the real agent, and a stand-in for Slurm, for tests of both executors."""

import json
import os
import pwd
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ckptd.checkpoints.executor import LocalExecutor, TicketState, VerificationRequest
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.core.model import RunKey
from support import shared_agent
from support.forked_agent import start_agent
from support.node_python import install_node_python
from support.verification_slurm import VerificationSlurm

USER = pwd.getpwnam("games") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
DEADLINE = timedelta(minutes=2)
SETTINGS = """
[agent]
uid_min = 1
[slurm]
cluster = "c"
[verify_jobs]
partition = "verify"
account = "storage"
qos = "low"
time_limit = "30m"
nice = 500
max_running = 2
python = "{python}"
directory = "{root}/tickets/{{uid}}"
"""


class MemoryTickets:
    """Tickets that last as long as the test."""

    def __init__(self):
        self.by_name = {}

    def add(self, ticket):
        self.by_name[ticket.name] = ticket

    change = add

    def read(self, name):
        return self.by_name.get(name)

    def delete(self, name):
        del self.by_name[name]

    def count_open(self, cluster, uid):
        return sum((ticket.run.cluster, ticket.run.uid) == (cluster, uid) for ticket in self.by_name.values())


class Site:
    """A user's run with checkpoints of torch-like archives, and what both executors need."""

    def __init__(self, root, python, agent, slurm):
        self.root, self.python, self.agent, self.slurm = root, python, agent, slurm
        self.directory = root / "run"
        self.tickets = MemoryTickets()
        self.now = datetime.now(UTC)

    @property
    def run(self):
        return RunKey("c", USER.pw_uid, str(self.directory))

    def save(self, *names):
        for name in names:
            np.savez(self.directory / name, weights=np.arange(5000.0))
            os.chown(self.directory / name, USER.pw_uid, USER.pw_gid)
            os.utime(self.directory / name, (self.now.timestamp() - 3600,) * 2)  # no save that goes on

    def scan(self):
        """Return what a scan on this node records of the checkpoints, by name."""
        found = inspect_tree(self.directory, now=datetime.now(UTC), write_grace=timedelta(0)).checkpoints
        return {each.path.name: each for each in found}

    def request(self, *names):
        known = self.scan()
        return VerificationRequest(self.run, tuple(known[name] for name in names or sorted(known)), self.now)

    def make_local(self):
        return LocalExecutor(self.agent, DEADLINE)

    def make_jobs(self, tickets=None, **limits):
        return JobExecutor(
            agent=self.agent,
            tickets=tickets or self.tickets,
            limits=JobLimits(**{"task_bytes": 1, **limits}),
            deadline=DEADLINE,
            read_time=lambda: self.now,
        )

    def finish(self, executor, ticket):
        """Let the queue get to all tasks; return the progress then."""
        for job_id in self.slurm.list_jobs():
            self.slurm.run_tasks(job_id)
        progress = executor.follow(ticket)
        assert progress.state is TicketState.READY, progress
        return progress

    def read_result(self, ticket):
        return json.loads((self.find_ticket_directory(ticket) / "result-0.json").read_text())

    def write_result(self, ticket, document):
        """Write what the owner likes in the place of a result."""
        (self.find_ticket_directory(ticket) / "result-0.json").write_text(json.dumps(document))

    def find_ticket_directory(self, ticket):
        return self.root / "tickets" / str(USER.pw_uid) / ticket


@contextmanager
def open_site(monkeypatch, more="", start=start_agent):
    with TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        for place in (root / "run", root / "tickets"):
            place.mkdir()
            os.chown(place, USER.pw_uid, USER.pw_gid)
        slurm = VerificationSlurm(root / "slurm", USER.pw_uid)
        monkeypatch.setenv("PATH", f"{slurm.path}:{os.environ['PATH']}")
        python = install_node_python()
        text = SETTINGS.format(root=root, python=python) + more.format(root=root)
        agent = shared_agent.start_with(text, start=start, is_person=True)
        try:
            yield Site(root, python, agent, slurm)
        finally:
            agent.close()
