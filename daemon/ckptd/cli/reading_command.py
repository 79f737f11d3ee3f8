"""Reads checkpoints on this node, one after the other, or by jobs of their owners, until a signal stops it."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import click

from ckptd.checkpoints.executor import LocalExecutor, VerifyPlace
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor
from ckptd.cli.interruption import InterruptibleExecutor, Interruption, StoppedError
from ckptd.cli.job_verification import JobVerification
from ckptd.cli.reading_progress import ShownOutcome, ShowProgress
from ckptd.cli.reading_work import ReadingWork, WantedReading
from ckptd.cli.whole_config import load_config
from ckptd.cli.writable_scope import open_scope
from ckptd.core.model import RunKey
from ckptd.service.agent_start import start_agent
from ckptd.service.build_verification import build_job_executor, find_verify_place
from ckptd.service.command_lease import join_or_take_lease
from ckptd.store.store import Store

Want = TypeVar("Want", bound=WantedReading)
Outcome = TypeVar("Outcome", bound=ShownOutcome)


class ReadingPlace(NamedTuple):
    """The runs that a command names, and where their checkpoints are read."""

    store: Store
    cluster: str
    runs: list[RunKey]
    local: LocalExecutor
    by_jobs: JobExecutor | None  # None: they are read on this node
    may_fall_back: bool  # to this node, for owners who may submit no job


@contextmanager
def open_place(context: click.Context, names: tuple[str, ...], *, is_here: bool) -> Iterator[ReadingPlace]:
    """Open the database, start the agent, and find the runs that a command names; without names, all."""
    with (
        open_scope(context, names) as desk,
        closing(start_agent(context.find_root().params.get("config"), is_person=True)) as agent,
        join_or_take_lease(desk.store, desk.cluster, "verify") as store,
    ):
        keys = desk.keys if desk.keys is not None else tuple(store.runs.list_keys())
        runs = [key for key in dict.fromkeys(keys) if key.cluster == desk.cluster and key.is_located]
        jobs = load_config(context).verify_jobs
        place = VerifyPlace.HERE if is_here else find_verify_place(jobs)
        by_jobs = None if place is VerifyPlace.HERE else build_job_executor(jobs, agent, store)
        local = LocalExecutor(agent, desk.site.verify_deadline)
        yield ReadingPlace(store, desk.cluster, runs, local, by_jobs, place is VerifyPlace.JOBS_OR_HERE)


def read_all(
    place: ReadingPlace,
    work: ReadingWork[Want, Outcome],
    wanted: Sequence[Want],
    interruption: Interruption,
    show: ShowProgress,
) -> list[Outcome]:
    """Read what is wanted until all of it has a result, or a signal arrives."""
    here = InterruptibleExecutor(place.local, interruption)
    if place.by_jobs is not None:
        command = JobVerification(
            store=place.store,
            work=work,
            executor=place.by_jobs,
            fallback=here if place.may_fall_back else None,
            interruption=interruption,
            show=show,
        )
        return command.read_all(wanted)
    outcomes: list[Outcome] = []
    for each in wanted:
        try:
            found = work.read_now(here, each, datetime.now(UTC))
        except StoppedError:
            break
        for outcome in found:
            outcomes.append(outcome)
            show(outcome, 0)
    return outcomes
