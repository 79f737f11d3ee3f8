"""Reads the lost work of a run's attempts with plain SQL."""

from collections.abc import Sequence
from typing import Any

from ckptd.core.model import Certainty, EndCause, JobKey, RunKey
from ckptd.core.rows.stored_instants import instant
from ckptd.core.runs.lost_work import AttemptLoss, LedgerLine
from ckptd.core.runs.redone_work import RedoneWork
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import JOB_KEY, decode_any, decode_number, decode_seconds, list_numbers
from ckptd.store.read_parts import ReadPart, selecting
from ckptd.store.run_parts import add_parts, find_parts
from ckptd.store.run_rows import find_run

_LINES = f"""
SELECT {JOB_KEY.of("j")}, a.restart_count, a.node_count, a.cpu_count, a.gpu_count, l."user", l.account, l."partition",
    l.cause, l.ended_at, l.is_final, l.saved_at, l.lost_seconds, l.lost_high_seconds, l.node_seconds, l.cpu_seconds,
    l.gpu_seconds, l.redone_low_seconds, l.redone_high_seconds, l.redone_certainty
FROM losses l JOIN attempts a ON l.attempt_id = a.id JOIN jobs j ON a.job_row = j.id
WHERE a.run_id IN ({{runs}}) ORDER BY l.ended_at, l.attempt_id
"""  # noqa: S608 - the columns are this package's own


class LossReader(ReadPart):
    """Lost work of the ended attempts of a run."""

    @selecting
    def list_lines(self, select: Select, run: RunKey) -> tuple[LedgerLine, ...]:
        """Return the lost work of each ended attempt of a run and of its other parts, oldest end first.

        Raises:
            UnknownRunError: the run is not recorded.

        """
        row_id = find_run(select, run)
        row_ids = add_parts([row_id], find_parts(select, [row_id]))
        return tuple(_line(row) for row in select(_LINES.format(runs=list_numbers(row_ids)), {}))


def _line(row: Sequence[Any]) -> LedgerLine:
    restart_count, node_count, cpu_count, gpu_count, user, account, partition, cause, ended_at, is_final = row[3:13]
    saved_at, lost, lost_high, node_seconds, cpu_seconds, gpu_seconds, redone_low, redone_high, certainty = row[13:]
    ended = instant(ended_at)
    assert ended is not None
    return LedgerLine(
        attempt=(JobKey(*JOB_KEY.decode(row[:3])), restart_count),
        user=decode_any(user),
        account=decode_any(account),
        partition=decode_any(partition),
        cause=EndCause(cause),
        ended_at=ended,
        loss=AttemptLoss(
            saved_at=instant(saved_at),
            lost=decode_seconds(lost),
            most=decode_seconds(lost if lost_high is None else lost_high),
            node_seconds=decode_number(node_seconds),
            cpu_seconds=decode_number(cpu_seconds),
            gpu_seconds=decode_number(gpu_seconds),
        ),
        is_final=bool(is_final),
        redone=RedoneWork(
            low=None if redone_low is None else decode_seconds(redone_low),
            high=None if redone_high is None else decode_seconds(redone_high),
            certainty=Certainty.UNKNOWN if certainty is None else Certainty(certainty),
        ),
        node_count=node_count,
        cpu_count=cpu_count,
        gpu_count=gpu_count,
    )
