"""Verification tickets on record: in SQLite and PostgreSQL, until their result is."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import RunKey
from ckptd.core.verification.ticket import VerificationTicket
from ckptd.store.database_errors import UnknownRunError
from support.queue_facts import RUN, at, follow, look, make_checkpoint, make_job


@pytest.fixture
def record(store):
    changes, _ = follow(look(1, make_job(1, started_at=at(0))))
    store.jobs.record(changes)
    return store


def make_ticket(run, name="00112233aabbccdd", **changes):
    pieces = (make_checkpoint("caf\udce9.pt"), make_checkpoint("b.pt"))
    return VerificationTicket(
        name=name, run=run, requested_at=at(2), tasks=((pieces[0],), (pieces[1],)), **changes
    )
