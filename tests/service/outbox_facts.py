"""Channels that answer as they are told, and critical flags whose notices wait to be sent."""

from dataclasses import replace

from ckptd.core import notices
from ckptd.core.model import Severity
from ckptd.core.notices.delivery import SendOutcome, SendResult
from core.histories import at
from core.notice_facts import POLICY, facts_of, flag, opened, run_of
from support.recorded import note_run


class Fake:
    """A channel that answers as it is told."""

    def __init__(self, *results):
        self.results = list(results)
        self.messages = []

    def send(self, message):
        self.messages.append(message)
        result = self.results.pop(0) if self.results else SendResult.SENT
        if isinstance(result, Exception):
            raise result
        if isinstance(result, SendOutcome):
            return result
        return SendOutcome(result=result, reason=None if result is SendResult.SENT else "no")


def record(
    store, *users, rule="at-risk", made_at=None, channel="mail", audience=("user",), policy=POLICY, **job_changes
):
    """Record one critical flag of each user, with its notice."""
    flags = [
        flag(None, rule=rule, user=user, run=run_of(number)._replace(uid=number), job_id=number, audience=audience)
        for number, user in enumerate(users, 1)
    ]
    flags = [replace(each, finding=replace(each.finding, severity=Severity.CRITICAL)) for each in flags]
    for each in flags:
        note_run(store, each.finding.run, at(0), user=each.finding.user, located_by="watch")
    planned = notices.plan(opened(*flags), facts_of(*flags, **job_changes), policy, made_at or at(0))
    planned = [replace(each, recipient=each.recipient._replace(channel=channel)) for each in planned]
    store.flags.record(opened(*flags), made_at or at(0), planned)
    return planned
