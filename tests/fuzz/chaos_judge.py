"""Whether what ckptd has done and recorded agrees with the world of the chaos run, at every minute and in the end."""

import os
from collections import Counter

import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.notices.delivery import LONGEST_WAIT_IF_UNCERTAIN
from ckptd.store.tables import NoticeTable
from fuzz import message_check
from support.prune_facts import CLUSTER, MINUTE, UID

KEPT = 2  # complete checkpoints of a run that the policy keeps
DONE = {"sent", "muted", "dropped"}
TOLERANCE = 1  # minutes, of one attempt's lost work
UNANSWERED = "no answer to the whole message"
PATIENCE = 60 * MINUTE  # for a notice that is due, when nothing fails
COLUMNS = (
    NoticeTable.state,
    NoticeTable.due_at,
    NoticeTable.next_try_at,
    NoticeTable.last_error,
    NoticeTable.message_id,
)


def _is_put_off(row, now, arrived):
    """Whether it has arrived, only without an answer, and is not due again: each try may be one more copy."""
    if row.message_id not in arrived or not (row.last_error or "").startswith(UNANSWERED):
        return False
    return now < row.next_try_at <= now + LONGEST_WAIT_IF_UNCERTAIN


class Judge:
    """Collects violations."""

    def __init__(self, world):
        self._world = world
        self.violations = []
        self._flags = {}
        self.counts = {"minutes": 0, "blind": 0, "opened": 0, "resolved": 0}

    def note(self, text):
        self.violations.append(f"minute {self._world.minute}: {text}")

    def key_of(self, training):
        return RunKey(CLUSTER, UID, str(training.directory))

    def check_checkpoints(self):
        """The newest complete checkpoints of every run are where their job has written them."""
        for training in self._world.trainings:
            if training.is_reachable:
                there = set(os.listdir(training.directory))
                for name in training.complete[-KEPT:]:
                    if name not in there:
                        self.note(f"{training.directory.name}/{name} is gone")
                        training.complete.remove(name)

    def forget_flags(self):
        """The daemon's clock changes, or another life begins: the next flags are compared with nothing."""
        self._flags = None

    def check_flags(self, daemon, before_blind):
        """No flag of a run opens or resolves while the queue, or the run's directory, cannot be read.

        `before_blind` are the runs of which that was so before this minute's steps and after them.
        """
        self.counts["minutes"] += 1
        now = {flag.flag_id: flag.finding for flag in daemon.store.flags.list_open(CLUSTER)}
        if self._flags is not None:
            for number in self._flags.keys() ^ now.keys():
                finding = now.get(number) or self._flags[number]
                kind = "opened" if number in now else "resolved"
                self.counts[kind] += 1
                if finding.run in before_blind:
                    self.note(f"{finding.rule} of {finding.run.directory} {kind} while nothing was known")
        self.counts["blind"] += len(before_blind)
        self._flags = now

    def check_ledger(self, store):
        """The work that each seen attempt lost is on record, as it is true."""
        for training in self._world.trainings:
            key = self.key_of(training)
            lines = {(each.attempt[0].job_id, each.attempt[1]): each for each in store.lost_work.list_lines(key)}
            for each in training.executions:
                if each.ended_at is None or each.is_hidden or self._world.minute - each.ended_at < 60:
                    continue
                line = lines.get((each.job_id, each.restart_count))
                name = f"job {each.job_id}.{each.restart_count} of {training.directory.name}"
                if line is None:
                    if each.is_seen:
                        self.note(f"{name} has no line of lost work")
                    continue
                self._check_line(name, each, line, saves=training.interval is not None)

    def _check_line(self, name, execution, line, *, saves):
        true = execution.unsaved
        low, high = line.loss.lost, line.loss.most
        if not saves:
            return  # a bound: nobody knows whether it would save elsewhere
        said = None if low is None else low / MINUTE
        if said is None:
            self.note(f"{name}: unknown loss, {true} min are true ({line.loss})")
        elif high is not None and said - TOLERANCE <= true <= high / MINUTE + TOLERANCE:
            return
        elif abs(said - true) > TOLERANCE:
            self.note(f"{name} lost {true} min, {said:g} are on record ({line.cause}, {line.loss})")

    def check_mail(self, store, inbox, uncertain_count):
        """Every notice has reached an end, and no message came twice but for those that were interrupted."""
        now = self._world.at(self._world.minute)
        overdue_at = now - PATIENCE
        with store.database.reading() as connection:
            rows = connection.execute(sa.select(*COLUMNS)).all()
        lost = [row for row in rows if row.state not in DONE and row.due_at is not None and row.due_at < overdue_at]
        arrived = message_check.count_arrived(inbox.mails)
        lost = [row for row in lost if not _is_put_off(row, now, arrived)]
        if lost:
            self.note(f"notices that were not delivered: {lost}")
        said = {row.message_id for row in rows if row.state == "sent" and row.message_id is not None}
        if missing := said - arrived.keys():
            self.note(f"{len(missing)} messages are recorded as sent and did not arrive")
        states = Counter(row.state for row in rows)
        doubled = sum(count - 1 for count in inbox.ids.values())
        if doubled > uncertain_count:
            self.note(f"{doubled} messages came twice, {uncertain_count} were interrupted")
        return dict(states), doubled
