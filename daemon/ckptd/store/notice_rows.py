"""Reads notices with plain SQL."""

import json
from typing import NamedTuple

from ckptd.core.model import RunKey
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import decode_any
from ckptd.store.read_parts import ReadPart, selecting
from ckptd.store.run_rows import find_runs

NEWEST = 100  # notices of a run that are read


class RefusedAddress(NamedTuple):
    """An address that a job names and that the site does not allow, and where its mail goes instead."""

    named: str
    used: str


class NoticeReader(ReadPart):
    """The outbox: waiting and sent notices."""

    @selecting
    def list_refused_addresses(self, select: Select, run: RunKey) -> tuple[RefusedAddress, ...]:
        """Return the addresses of a run's newest notices that the site does not allow, each once."""
        run_id = find_runs(select, [run]).get(run)
        if run_id is None:
            return ()
        rows = select(
            "SELECT payload, recipient FROM notices WHERE run_id = :run_id ORDER BY id DESC LIMIT :limit",
            {"run_id": run_id, "limit": NEWEST},
        )
        found = ((json.loads(payload).get("refused_address"), decode_any(recipient)) for payload, recipient in rows)
        return tuple({named: RefusedAddress(named, used) for named, used in found if named}.values())
