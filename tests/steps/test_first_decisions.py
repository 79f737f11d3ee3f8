"""How a decision treats runs that none was about before."""

from datetime import timedelta

from ckptd.steps import awaited_scans, decide, decision_slice
from ckptd.steps.decision_slice import DecisionSlice
from support.deciding import Counted, Deciding
from support.queue_facts import at, make_job


def test_after_a_start_runs_are_decided_about_in_portions_and_none_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(decide, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(decide, "FIRST_AT_ONCE", 2)
    rule = Counted()
    twin = Deciding(tmp_path, forgets=False, rules=(rule,))
    jobs = [make_job(job_id) for job_id in range(1, 6)]
    twin.poll(0, jobs)
    for job in jobs[:3]:  # the others have no run on record that a portion could wait for
        twin.locate(1, job.job_id)
    asked = []
    twin.state.decision_due.set()
    while twin.state.decision_due.is_set():
        result = decide.run(twin.parts, twin.state, at(1))
        assert result.is_unfinished == twin.state.decision_due.is_set()
        asked.append(len(rule.asked))
    assert asked == [2, 4, 5]
    assert len(set(rule.asked)) == 5
    twin.store.close()


def test_runs_that_wait_for_their_first_scan_hold_back_decisions_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(awaited_scans, "MANY", 1)
    monkeypatch.setattr(decision_slice, "PAUSE_PER_RUN", timedelta(seconds=1))
    twin = Deciding(tmp_path, forgets=False)
    twin.poll(0, [make_job(job_id) for job_id in range(1, 11)])
    twin.decide(0)
    assert not twin.state.find(DecisionSlice).evaluated.by_run
    for seconds, is_decided in ((1, True), (10, False), (11, True)):
        twin.state.decision_due.set()
        decide.run(twin.parts, twin.state, at(0) + timedelta(seconds=seconds))
        assert twin.state.decision_due.is_set() is not is_decided
    twin.store.close()
