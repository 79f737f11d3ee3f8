"""The daemon's table: what runs, how often, and what a single cycle runs of it."""

import tomllib
from datetime import timedelta
from pathlib import Path

from ckptd.service import step_table
from ckptd.service.step_table import EXPIRE, STEPS, TABLE, Step, run_once
from ckptd.steps.results import StepResult
from steps.daemon_lives import Cluster, Disk, Service

ROOT = Path(__file__).parents[2]


def test_each_line_of_the_table_has_a_name_and_a_module_of_its_own():
    assert len(STEPS) == len(TABLE)
    modules = [step.run.__module__ for step in TABLE]
    assert len(set(modules)) == len(TABLE)


def test_the_contract_that_steps_never_import_each_other_names_every_step():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "independence")
    modules = {step.run.__module__ for step in TABLE if step.run.__module__.startswith("ckptd.steps.")}
    assert {".".join(module.split(".")[:3]) for module in modules} == set(contract["modules"])


def test_every_step_runs_at_least_once_a_day(tmp_path):
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", Cluster(), Disk(), 0)
    intervals = {step.name: step.interval(service.parts) for step in TABLE if step.name != "prune"}
    assert all(timedelta(0) < interval <= timedelta(days=1) for interval in intervals.values())
    service.parts.store.close()


def test_a_single_cycle_neither_acts_on_jobs_nor_prunes():
    assert {step.name for step in TABLE if not step.once} == {
        "act",
        "prune",
        "scan-on-nodes",
        "verify",
        "collect-garbage",
        "release-memory",
    }


def test_a_single_cycle_runs_a_step_until_it_has_finished(tmp_path, monkeypatch):
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", Cluster(), Disk(), 0)
    results = [StepResult(is_unfinished=True), StepResult(is_unfinished=True), StepResult()]
    waiting = list(results)
    step = Step("portions", lambda *_: waiting.pop(0), lambda _: timedelta(seconds=1))
    monkeypatch.setattr(step_table, "TABLE", (step,))
    written = []
    run_once(service.parts, service.state, service.now, write=written.append)
    assert written == results
    service.parts.store.close()


def test_a_single_cycle_runs_the_table_in_its_order(tmp_path):
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", Cluster(), Disk(), 0)
    asked, results = [], []

    def expires():
        asked.append(len(results))
        return False

    run_once(service.parts, service.state, service.now, expires=expires, write=results.append)
    names = [step.name for step in TABLE for _ in range(step.once) if step.name != EXPIRE]
    assert names == [
        "poll",
        "backfill",
        "share",
        "scan",
        "scan",
        "check-purges",
        "decide",
        "remind",
        "send",
        "housekeeping",
        "publish",
    ]
    assert all(isinstance(result, StepResult) for result in results)
    assert asked == [len(names)] == [len(results)]
    service.parts.store.close()
