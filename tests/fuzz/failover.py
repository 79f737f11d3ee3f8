"""Kill, stop or cut off the acting one of two daemons on one PostgreSQL at random moments, and see who acts.

    python tests/fuzz/failover.py [--rounds 50] [--seed N] [--pgbouncer]

Each round does one of three things to the daemon that acts: kill -9; SIGSTOP until the other one has taken over, then
SIGCONT; or cut its connections until the other one has taken over. The other one must act within 30 s, at no moment two
say that they act, the epoch rises by one, and a daemon that was replaced ends.

All the time, jobs on a simulated Slurm reach their limits, restart without progress and save, so that ckptd resubmits,
holds, prunes and sends mail. In the end, no job was resubmitted or held twice, each was once, or its action is recorded
as cut off; no message is lost, and none came twice that was not interrupted; each checkpoint that is not there was
moved once, and the newest two are there. It ends with 1 otherwise.
"""

import argparse
import random
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "daemon"), str(HERE.parents[1] / "deploy")]

import psycopg  # noqa: E402

from ckptd.store.store import Store  # noqa: E402
from conftest import PostgreSQL  # noqa: E402
from demo.patience import Deadline  # noqa: E402
from fuzz import failover_load  # noqa: E402
from support.pgbouncer import PgBouncer  # noqa: E402
from support.real_daemon import RealDaemon  # noqa: E402

KINDS = ("stop", "cut", "kill")
TAKEOVER_SECONDS = 30.0
START_SECONDS = 120.0


def wait_for(what, holds, seconds):
    """Wait for a condition, longer on a busy host; return after how many seconds it held."""
    deadline = Deadline(seconds)
    while not holds():
        if deadline.has_passed():
            raise RuntimeError(f"{what} did not happen within {deadline.elapsed:.0f} s")
        time.sleep(0.2)
    return deadline.elapsed


class Link:
    """A daemon's way to the database, which can be cut."""

    def __init__(self, server_port):
        self.is_cut = False
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """End every connection, and let no other one through."""
        self.is_cut = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self):
        while True:
            ours, _ = self._listener.accept()
            if self.is_cut:
                ours.close()
                continue
            theirs = socket.create_connection(("127.0.0.1", self._server_port))
            self._open += [ours, theirs]
            for source, target in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=forward, args=(source, target), daemon=True).start()


def forward(source, target):
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


class Cluster:
    """Two daemons on one database."""

    def __init__(self, folder, server, port, load):
        """`port` is where the daemons reach the server: its own one, or that of a PgBouncer."""
        self.database = server.create_database()
        Store.open(self.database, upgrade=True).close()
        self.links = {}
        for name in ("a", "b"):
            link = Link(port)
            daemon = RealDaemon(
                folder / name,
                self.database.replace(f":{server.port}/", f":{link.port}/"),
                load.settings,
                source=failover_load.SOURCE,
                environment=load.slurm.environment,
            )
            self.links[daemon] = link
        self.daemons = list(self.links)
        self.acting, self.waiting = self.daemons
        self.acting.start()
        wait_for("the first lease", lambda: self.acting.is_leader, START_SECONDS)
        self.restart(self.waiting)

    def ask(self, statement):
        with psycopg.connect(self.database, autocommit=True) as connection:
            return connection.execute(statement).fetchall()

    def restart(self, daemon):
        """Start a daemon, if it is not running, and wait until it stands by."""
        if not hasattr(daemon, "process") or daemon.process.poll() is not None:
            daemon.start()
        wait_for("a standby", lambda: daemon.is_leader is False, START_SECONDS)

    def take_over(self):
        """Wait until the other daemon acts; return after how many seconds it did.

        The one that acted is asked only then: one that is stopped answers nothing, and each question would wait for it.
        """
        took = wait_for("a takeover", lambda: self.waiting.is_leader, TAKEOVER_SECONDS)
        if self.acting.process.poll() is None and self.acting.is_leader:
            raise RuntimeError("both daemons say that they act")
        if took > TAKEOVER_SECONDS:
            raise RuntimeError(f"a takeover took {took:.0f} s")
        return took

    def run_round(self, kind):
        """Do one thing to the daemon that acts; return after how many seconds the other one acted."""
        ((epoch, pid),) = self.ask("SELECT epoch, pid FROM leases")
        assert pid == self.acting.process.pid
        if kind == "kill":
            self.acting.kill()
        elif kind == "stop":
            self.acting.process.send_signal(signal.SIGSTOP)
        else:
            self.links[self.acting].cut()
        took = self.take_over()
        if kind == "stop":
            self.acting.process.send_signal(signal.SIGCONT)
        self.links[self.acting].is_cut = False
        if kind != "kill":
            wait_for("the end of the daemon that was replaced", lambda: self.acting.process.poll() == 1, START_SECONDS)
        ((now, pid),) = self.ask("SELECT epoch, pid FROM leases")
        if (now, pid) != (epoch + 1, self.waiting.process.pid):
            raise RuntimeError(f"epoch {now} of process {pid} after epoch {epoch}")
        self.acting, self.waiting = self.waiting, self.acting
        self.restart(self.waiting)
        return took

    def settle(self):
        """Let the daemon that acts do what is still due, also what was claimed and interrupted."""
        self.change("UPDATE notices SET claimed_at = claimed_at - interval '1 hour' WHERE state = 'claimed'")
        due = "SELECT count(*) FROM notices WHERE state IN ('waiting', 'claimed') AND due_at <= now()"
        wait_for("sending all mail", lambda: self.ask(due) == [(0,)], START_SECONDS)
        moving = "SELECT count(*) FROM audit WHERE action = 'prune' AND finished_at IS NULL"
        wait_for("the outcome of each removal", lambda: self.ask(moving) == [(0,)], START_SECONDS)

    def write_tables(self, folder):
        """Copy what the daemons have recorded into files, for whoever has to find out what went wrong."""
        with psycopg.connect(self.database) as connection:
            for name in ("audit", "attempts", "checkpoints", "flags", "jobs", "notices", "runs"):
                with (
                    (folder / f"{name}.csv").open("wb") as file,
                    connection.cursor().copy(f"COPY {name} TO STDOUT (FORMAT csv, HEADER)") as rows,
                ):
                    for row in rows:
                        file.write(row)

    def change(self, statement):
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(statement)

    def close(self):
        for each in self.daemons:
            with suppress(AttributeError):
                each.kill()


def run(cluster, load, rounds, dice):
    """Do all rounds under load; return how long each takeover took, and what went wrong."""
    took = []
    cut_off = "SELECT target FROM audit WHERE action = 'resubmit-job' AND (outcome IS NULL OR outcome LIKE 'cut off%')"
    load.is_given_up = lambda number: (f"job {number}",) in cluster.ask(cut_off)
    load.is_scanned = lambda directory: bool(
        cluster.ask(f"SELECT 1 FROM runs WHERE directory = '{directory}' AND scanned_at IS NOT NULL")
    )
    load.start()
    for number in range(rounds):
        kind = dice.choice(KINDS) if rounds >= len(KINDS) else KINDS[number]
        time.sleep(dice.uniform(0, 10))
        took.append(cluster.run_round(kind))
        print(f"round {number + 1}: {kind}, taken over after {took[-1]:.1f} s", flush=True)
    load.finish()
    cluster.settle()
    wrong, summary = load.judge(cluster.ask)
    print(summary)
    return took, wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--pgbouncer", action="store_true", help="let the daemons reach the database through it")
    arguments.add_argument("--keep", action="store_true", help="keep the directory if something is wrong")
    options = arguments.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="ckptd-failover-"))
    folder.chmod(0o755)
    wrong = ["it did not end"]
    with ExitStack() as held:
        server = PostgreSQL()
        held.callback(server.stop)
        server.start()
        port = server.port
        if options.pgbouncer:
            pgbouncer = PgBouncer(server)
            held.callback(pgbouncer.stop)
            port = pgbouncer.start().port
        load = failover_load.Load(folder)
        held.callback(load.close)
        try:
            cluster = Cluster(folder, server, port, load)
            held.callback(cluster.close)
            took, wrong = run(cluster, load, options.rounds, random.Random(options.seed))
            if wrong and options.keep:
                cluster.write_tables(folder)
        except RuntimeError as error:
            wrong, took = [str(error)], [0.0]
    if wrong and options.keep:
        print(f"kept: {folder}")
    else:
        shutil.rmtree(folder)
    for each in wrong:
        print(f"wrong: {each}")
    way = "through PgBouncer" if options.pgbouncer else "without PgBouncer"
    print(
        f"{len(took)} takeovers {way}, the median after {statistics.median(took):.1f} s, the longest {max(took):.1f} s"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
