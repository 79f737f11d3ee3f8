from dataclasses import replace

import pytest

from ckptd.core import queue
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.job_actions.action_policy import ActionKind, ActionPermits
from ckptd.slurm.programs import Programs
from ckptd.steps import act
from core.histories import RUN, at
from support.job_action_facts import Recorder
from support.migrated import open_record
from support.queue_facts import look, make_job
from support.recorded import note_run


@pytest.fixture
def parts(tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    store.clusters.record_poll("c1", at(0))
    permits = ActionPermits(partitions={ActionKind.HOLD: ("*",)}, max_per_hour=4)  # of which one user gets half
    yield act.ActParts(
        cluster="c1",
        store=store,
        agent=Recorder(store, {"output": ""}),
        programs=Programs(),
        permits=permits,
        loop_rule=lambda _: RestartLoop(),
    )
    store.close()


@pytest.fixture
def run_on_record(parts):
    changes = queue.compare({}, look(0, replace(make_job(1), cluster="c1")))
    changes = replace(changes, cluster="c1", new=tuple(rename(known) for known in changes.new), begun=(), ended=())
    parts.store.jobs.record(changes)
    note_run(parts.store, RUN, at(0), jobs=[changes.new[0].key])


def rename(known):
    key = known.key._replace(cluster="c1")
    return replace(known, key=key, attempt=None, run=known.run._replace(cluster="c1"))


@pytest.fixture
def resubmitting(parts, run_on_record):
    permits = ActionPermits(partitions={ActionKind.RESUBMIT: ("*",), ActionKind.SIGNAL: ("*",)})

    def using(agent):
        return replace(parts, agent=agent, permits=permits)

    return using
