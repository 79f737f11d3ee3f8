"""What jobs at risk ask of Slurm, by their batch scripts."""

from dataclasses import dataclass, replace

import pytest

from ckptd.core.model import Finding, Severity, Unknown
from ckptd.steps import decide, poll, read_scripts
from ckptd.steps.state import begin
from support.migrated import open_record
from support.parts import make_parts
from support.queue_facts import CLUSTER, at, look, make_job


@dataclass(frozen=True)
class Risk:
    """A rule that takes every job for one at risk that is called so and asks for no signal."""

    name = "at-risk"

    def evaluate(self, history, now):
        return [
            Finding(
                rule=self.name,
                severity=Severity.INFO,
                run=history.key,
                job_id=job.job_id,
                user=history.user,
                evidence={},
                recorded_advice="Save early and often.",
            )
            for job in history.jobs
            if job.name == "risky" and job.job_id not in history.context.signals
        ]


class Scripts:
    """A source that is only asked for scripts."""

    def __init__(self):
        self.scripts, self.calls = {}, []

    def read_batch_script(self, job, *, is_urgent=False):
        assert is_urgent
        self.calls.append(job.job_id)
        return self.scripts.get(job.job_id, Unknown(what="batch script", reason="there is none"))


@pytest.fixture
def parts(tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    yield make_parts(CLUSTER, Scripts(), store, rules=(Risk(),), reads_batch_scripts=True)
    store.close()


def judge(parts, state, minutes, *jobs):
    poll.record_queue(parts, state, look(minutes, *jobs), (), at(minutes))
    decide.decide(parts, state, at(minutes))
    return [flag.finding.job_id for flag in parts.store.flags.list_open(CLUSTER)]


RISKY = [make_job(number, name="risky") for number in (1, 2, 3)]


def test_the_script_of_a_job_at_risk_is_read_once_and_counts_at_once(parts):
    parts.source.scripts = {1: "#!/bin/bash\n#SBATCH --signal=B:USR1@300\nsrun train\n", 2: "#!/bin/bash\nsrun train\n"}
    state = begin(parts, at(0))
    jobs = [*RISKY[:2], replace(RISKY[2], is_batch=False), make_job(4, name="calm")]
    assert judge(parts, state, 0, *jobs) == [2, 3]
    assert judge(parts, state, 1, *jobs) == [2, 3]
    assert parts.source.calls == [1, 2]


def test_a_new_start_reads_the_script_of_a_job_whose_flag_is_open_again(parts):
    assert judge(parts, begin(parts, at(0)), 0, RISKY[0]) == [1]
    parts.source.scripts = {1: "#!/bin/bash\n#SBATCH --signal=USR1\nsrun train\n"}
    assert judge(parts, begin(parts, at(1)), 1, RISKY[0]) == []


def test_what_a_job_asked_for_is_forgotten_with_it(parts):
    state = begin(parts, at(0))
    judge(parts, state, 0, *RISKY)
    judge(parts, state, 1, RISKY[0])
    assert set(read_scripts.known_signals(state)) == {1}


def test_a_job_that_reuses_an_id_asked_for_nothing_that_the_one_before_it_did(parts):
    parts.source.scripts = {1: "#!/bin/bash\n#SBATCH --signal=USR1\nsrun train\n"}
    state = begin(parts, at(0))
    assert judge(parts, state, 0, RISKY[0]) == []
    parts.source.scripts = {1: "#!/bin/bash\nsrun train\n"}
    other = replace(RISKY[0], uid=2000, user="bo", submitted_at=at(1), started_at=at(1))
    assert [judge(parts, state, minute, other) for minute in (2, 3)][-1] == [1]


def test_no_script_is_read_where_the_site_does_not_allow_it(parts):
    parts = replace(parts, reads_batch_scripts=False)
    assert judge(parts, begin(parts, at(0)), 0, *RISKY) == [1, 2, 3]
    assert parts.source.calls == []


def test_scripts_are_read_a_few_at_a_time(parts):
    state, jobs = begin(parts, at(0)), [make_job(number, name="risky") for number in range(1, 31)]
    judge(parts, state, 0, *jobs)
    assert len(parts.source.calls) == 20
    judge(parts, state, 1, *jobs)
    assert sorted(parts.source.calls) == list(range(1, 31))
