"""Days of a cluster in minutes, in which everything that ckptd depends on fails at random and at once.

    python tests/fuzz/chaos.py [--days 3] [--seed N] [--postgresql]

The jobs, their files, the agent, the trash, the database and the mail relay are real; the time and the queue are
played. In random order, and overlapping, the controller stops answering or loses its state, accounting is away,
transactions fail at their start or their commit, SQLite finds no space or PostgreSQL is stopped, the relay refuses,
cuts connections after it has accepted, or is down, directories are unmounted, with or without an empty one in their
place, or closed, the disk is full, the daemon's clock is wrong by hours, the agent dies, and the daemon is killed
between steps and within transactions, or is down for an hour. `failover.py` kills real processes, and plays two
daemons.

Throughout, the newest complete checkpoints of each run are there, and no flag opens or resolves of what could not be
read. In the end, no notice is lost, none came twice that was not interrupted, the record of lost work is what is true,
and memory has not grown. It ends with 1 otherwise.
"""

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "daemon"), str(HERE.parents[1] / "deploy")]

from conftest import PostgreSQL  # noqa: E402
from fuzz.chaos_daemon import ChaosDaemon  # noqa: E402
from fuzz.chaos_judge import Judge  # noqa: E402
from fuzz.chaos_world import Slurm, World  # noqa: E402
from support.mail_server import PASSWORD, MailServer  # noqa: E402
from support.outbox_sender import make_channel  # noqa: E402
from support.prune_facts import MINUTE  # noqa: E402

DAY = 24 * 60  # minutes
CALM = 4 * 60  # without faults in the end, longer than any error of the clock: everything is made up for
CALM_STEP = 2  # minutes between two ticks of it
MAX_GROWTH = 1.25  # of memory, from a third of the time on
LONGEST = 90  # minutes that one fault lasts
SETTLED = 15  # minutes after a job's start or end, until which flags change because of it
GAP = 25  # minutes between two beginnings, on average


class Chaos:
    """Everything that can fail, and what fails now."""

    def __init__(self, root, seed, days, server=None):
        begin = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=days + 2)
        self.random = random.Random(seed)
        self.root = root
        self.world = World(root, begin, self.random)
        self.slurm = Slurm(self.world)
        self.judge = Judge(self.world)
        self.relay = MailServer(root)
        password_file = root / "password"
        password_file.write_text(PASSWORD)
        self.channel = make_channel(self.relay.port, self.relay.certificate, password_file)
        database = server.create_database() if server else f"sqlite:///{root}/ckptd.sqlite3"
        self._server = server
        self.faults = (*self.FAULTS, "halted_database" if server else "full_database")
        self.daemon = ChaosDaemon(root, database, self.slurm, self.channel, self.random)
        self.clock_error = timedelta(0)
        self.unrecorded_from = self.recorded_at = 0  # the last minutes in which nothing could be learned or recorded
        self.queued, self.followed_at = {}, {}  # whether a run's job is queued as recorded; when that became so
        self.uncertain_count = 0  # messages of which nobody knows whether they arrived
        self.under_way = {}  # the end of each fault, with the minute when it ends
        self.counts = {}
        self.memory = []
        self.notices, self.doubled = {}, 0

    FAULTS = (
        "controller",
        "empty_queue",
        "accounting",
        "database",
        "refusing_relay",
        "cutting_relay",
        "dead_relay",
        "unmounted",
        "replaced",
        "closed",
        "full_disk",
        "clock",
        "agent",
        "killed",
        "killed_in_transaction",
        "down",
    )

    def run(self, days):
        """Play all days and a calm end."""
        self.relay.start()
        try:
            for _ in range(int(days * DAY)):
                self._minute()
                if self.random.random() < 1 / GAP:
                    self._begin(self.random.choice(self.faults))
            for fault in list(self.under_way):
                self._end(fault)
            for _ in range(CALM // CALM_STEP):
                for _ in range(CALM_STEP - 1):
                    self.world.advance()
                self._minute()
        finally:
            self.relay.stop()
        self._judge_end()

    def _minute(self):
        world, daemon = self.world, self.daemon
        world.advance()
        for fault in [name for name, (ends, _) in self.under_way.items() if ends <= world.minute]:
            self._end(fault)
        now, elapsed = world.at(world.minute) + self.clock_error, world.minute * MINUTE
        if not daemon.is_alive and "down" not in self.under_way:
            self.judge.forget_flags()
            daemon.start(now, elapsed)
        if not daemon.is_alive or daemon.is_without_database or self.slurm.is_down or self.slurm.is_empty:
            if self.recorded_at < world.minute - 1:
                self.unrecorded_from = world.minute
            self.recorded_at = world.minute
        if daemon.is_alive:
            self._tick(now, elapsed)
        self.judge.check_checkpoints()
        if world.minute % 60 == 0:
            self.memory.append(_read_memory())

    def _tick(self, now, elapsed):
        daemon, judge = self.daemon, self.judge
        blind = {judge.key_of(each) for each in self.world.trainings if self._is_blind(each)}
        cuts = self.relay.inbox.cuts
        for text in daemon.tick(now, elapsed, self.world.minute):
            judge.note(text)
        self.uncertain_count += cuts - self.relay.inbox.cuts
        if not daemon.is_alive:
            self.uncertain_count += 1  # it may have been killed between a message and its record
        elif daemon.is_without_database:
            self.uncertain_count += 1
            judge.forget_flags()
        else:
            self._note_followed()
            still = {judge.key_of(each) for each in self.world.trainings if self._is_blind(each)}
            judge.check_flags(daemon, blind & still)

    def _note_followed(self):
        """Note which records of jobs have just become what the queue shows, be it that it shows nothing."""
        for training in self.world.trainings:
            run = self.judge.key_of(training)
            before, now = self.queued.get(run), self.daemon.is_queued(run)
            self.queued[run] = now
            is_shown = training.is_queued and not self.slurm.is_empty
            if now is not before and now is is_shown and not self.slurm.is_down:
                self.followed_at[run] = self.world.minute

    def _is_blind(self, training):
        """Whether nothing is known of a run; what the queue has just said of its job may change its flags."""
        run = self.judge.key_of(training)
        followed_at = self.followed_at.get(run)
        is_followed = followed_at is not None and self.world.minute - followed_at <= SETTLED
        last = training.executions[-1] if training.executions else None
        changed_at = 0 if last is None else max(last.started_at, last.ended_at or 0)
        if changed_at >= self.unrecorded_from - SETTLED:  # it is learned when recording is possible again
            changed_at = max(changed_at, self.recorded_at)
        is_new = self.world.minute - changed_at <= SETTLED or is_followed
        return self.daemon.is_blind(run) and (self.slurm.is_down or not is_new)

    def _begin(self, fault):
        if fault in self.under_way:
            return
        self.counts[fault] = self.counts.get(fault, 0) + 1
        undo = getattr(self, f"_begin_{fault}")()
        if undo:
            self.under_way[fault] = self.world.minute + self.random.randint(3, LONGEST), undo

    def _end(self, fault):
        _, undo = self.under_way.pop(fault)
        undo()

    def _set(self, thing, name, value):
        before = getattr(thing, name)
        setattr(thing, name, value)
        return lambda: setattr(thing, name, before)

    def _begin_controller(self):
        return self._set(self.slurm, "is_down", True)

    def _begin_empty_queue(self):
        return self._set(self.slurm, "is_empty", True)

    def _begin_accounting(self):
        return self._set(self.slurm, "is_without_accounting", True)

    def _begin_database(self):
        return self._set(self.daemon, "is_database_away", True)

    def _begin_full_database(self):
        return self._set(self.daemon, "is_database_full", True)

    def _begin_halted_database(self):
        self._server.halt()
        self.daemon.is_database_halted = True

        def undo():
            self._server.resume()
            self.daemon.is_database_halted = False

        return undo

    def _begin_refusing_relay(self):
        self.relay.inbox.answers = {self.random.choice(["MAIL", "RCPT", "DATA"]): "451 4.3.0 later"}
        return self.relay.inbox.answers.clear

    def _begin_cutting_relay(self):
        self.relay.inbox.cuts += 2

    def _begin_dead_relay(self):
        self.relay.stop()
        return self.relay.start

    def _begin_unmounted(self):
        training, away = self._move_away()

        def undo():
            away.rename(training.directory)
            training.is_reachable = True

        return undo

    def _begin_replaced(self):
        training, away = self._move_away()
        training.directory.mkdir()  # by root, as a mount point
        training.is_replaced = True
        for each in training.executions[-1:]:
            each.is_hidden = True

        def undo():
            training.directory.rmdir()
            away.rename(training.directory)
            training.is_reachable, training.is_replaced = True, False

        return undo

    def _move_away(self):
        training = self._close_one()
        away = self.root / f"away-{training.number}"  # where no search looks: what is not mounted is nowhere
        training.directory.rename(away)
        return training, away

    def _close_one(self):
        training = self.random.choice([each for each in self.world.trainings if each.is_reachable])
        training.is_reachable = False
        return training

    def _begin_closed(self):
        training = self._close_one()
        training.directory.chmod(0)

        def undo():
            training.directory.chmod(0o755)
            training.is_reachable = True

        return undo

    def _begin_full_disk(self):
        return self._set(self.world, "is_full", True)

    def _begin_clock(self):
        self.clock_error = self.random.choice([-2, -1, 1, 3]) * timedelta(hours=1)
        self.judge.forget_flags()

        def undo():
            self.clock_error = timedelta(0)
            self.judge.forget_flags()

        return undo

    def _begin_agent(self):
        if self.daemon.is_alive:
            self.daemon.lose_agent()

    def _begin_killed(self):
        self.daemon.end()

    def _begin_killed_in_transaction(self):
        self.daemon.kill_after = self.random.randint(1, 60)

    def _begin_down(self):
        self.daemon.end()
        return lambda: None

    def _judge_end(self):
        if not self.daemon.is_alive:
            self.judge.note("the daemon does not live in the end")
            return
        self.judge.check_ledger(self.daemon.store)
        self.notices, self.doubled = self.judge.check_mail(self.daemon.store, self.relay.inbox, self.uncertain_count)
        third = max(self.memory[: len(self.memory) // 3], default=0)
        if third and max(self.memory) > third * MAX_GROWTH:
            self.judge.note(f"memory grew from {third >> 20} to {max(self.memory) >> 20} MiB")

    def report(self):
        """Print what was played and seen."""
        ended = sum(1 for _ in self.world.list_ended())
        print(f"{self.world.minute / DAY:.1f} days, {ended} attempts, faults: {self.counts}")
        print(f"lives {self.daemon.lives}, steps that failed {self.daemon.failures}, seen {self.judge.counts}")
        print(f"notices {self.notices}, messages {len(self.relay.inbox.mails)}, twice {self.doubled}")
        print(f"memory {min(self.memory) >> 20} to {max(self.memory) >> 20} MiB")
        for text in self.judge.violations:
            print(f"  {text}")
        print(f"{len(self.judge.violations)} violations")


def _read_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@contextmanager
def prepare(seed, days, server=None):
    """Give a chaos run of so many days in a directory of its own, which is gone in the end.

    `server` is a PostgreSQL; without it, the database is SQLite.
    """
    root = Path(tempfile.mkdtemp(prefix="ckptd-chaos-"))
    root.chmod(0o755)
    chaos = Chaos(root, seed, days, server)
    try:
        yield chaos
    finally:
        chaos.daemon.end()
        shutil.rmtree(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--postgresql", action="store_true", help="instead of SQLite")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root: the files belong to another user")
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        server = PostgreSQL() if options.postgresql else None
        if server:
            stack.callback(server.stop)
            server.start()
        chaos = stack.enter_context(prepare(options.seed, options.days, server))
        chaos.run(options.days)
        chaos.report()
    sys.exit(bool(chaos.judge.violations))


if __name__ == "__main__":
    main()
