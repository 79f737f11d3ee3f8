"""The judge itself: what it calls right, hedged and wrong, on a run whose truth is written down here."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from programs import lammps, truth
from programs.judge import Bounds, Judge, Verdict, judge_totals
from programs.scenarios import SCENARIOS, list_groups
from programs.truth import AttemptTruth, Loaded, Save

DIRECTORY = Path("/work/ckpt")


def make_attempts(loaded):
    saves = [Save(f"melt.{n}.restart", n, n / 10) for n in (100, 200, 300)]
    first = AttemptTruth(job_id=1, restart_count=0, started_at=0, mode="fresh", ended_at=35, saves=saves)
    first.loaded = Loaded(None, 0)
    second = AttemptTruth(job_id=1, restart_count=1, started_at=40, mode="older", ended_at=60)
    second.loaded = loaded
    second.saves = [Save("melt.300.restart", 300, 50)]
    return [first, second]


def make_judge(loaded):
    run = SimpleNamespace(
        name="lammps older",
        program=lammps,
        scenario=next(each for each in SCENARIOS if each.name == "older"),
        attempts=make_attempts(loaded),
        work_dir=DIRECTORY.parent,
        directory=DIRECTORY,
        jobs=[1],
    )
    return Judge(run, Bounds(save=10, news=12))


OLDER = Loaded("ckpt/melt.200.restart", 200)


@pytest.mark.parametrize(
    ("loaded", "redone"), [(OLDER, 10), (Loaded("ckpt/melt.300.restart", 300), 0), (Loaded(None, 0), 30)]
)
def test_work_is_redone_from_what_was_loaded_to_the_last_save(loaded, redone):
    attempts = make_attempts(loaded)
    assert truth.measure_redone(attempts) == {"1.0": redone, "1.1": 0}
    assert [truth.measure_unsaved(each) for each in attempts] == [5, 10]


RESUMES = {
    "the one it loaded": ({"path": "/work/ckpt/melt.200.restart", "certainty": "inferred"}, Verdict.RIGHT),
    "another one": ({"path": "/work/ckpt/melt.300.restart", "certainty": "inferred"}, Verdict.WRONG),
    "nothing": ({"path": None, "certainty": "proven"}, Verdict.WRONG),
    "a copy of the same save": ({"path": f"{DIRECTORY}/last.restart", "certainty": "inferred",
                                 "equals": [f"{DIRECTORY}/melt.200.restart"]}, Verdict.HEDGED),
    "one of several": ({"path": None, "certainty": "unknown", "candidates": [f"{DIRECTORY}/melt.200.restart"]},
                       Verdict.HEDGED),
    "none of several": ({"path": None, "certainty": "unknown", "candidates": ["/other"]}, Verdict.WRONG),
}  # fmt: skip


@pytest.mark.parametrize(("said", "verdict"), RESUMES.values(), ids=RESUMES)
def test_what_it_resumed_from(said, verdict):
    judge = make_judge(OLDER)
    said = {"candidates": [], "equals": [], "may_be_fresh": False, "reason": "progress", "evidence": {}, **said}
    judge._judge_resume(said, judge._attempts[1])
    assert [each.verdict for each in judge.judgements] == [verdict]


BOUNDS = {
    "a figure within one save interval": (25, 25, Verdict.RIGHT),
    "a figure that is further off": (15, 15, Verdict.WRONG),
    "narrow bounds": (20, 35, Verdict.RIGHT),
    "wide bounds": (0, 90, Verdict.HEDGED),
    "bounds beside it": (45, 90, Verdict.WRONG),
    "no figure": (None, None, Verdict.HEDGED),
}


@pytest.mark.parametrize(("low", "high", "verdict"), BOUNDS.values(), ids=BOUNDS)
def test_a_figure_of_thirty_seconds(low, high, verdict):
    judge = make_judge(OLDER)
    judge._judge_bound("redone", low, high, 30)
    assert [each.verdict for each in judge.judgements] == [verdict]


def make_flag(rule="not-resuming", opened="1970-01-01T00:00:55+00:00", **evidence):
    return {
        "rule": rule,
        "job_id": 1,
        "run": str(DIRECTORY),
        "severity": "critical",
        "statement": "",
        "opened_at": opened,
        "resolved_at": None,
        "evidence": {"should_resume_from": "/work/ckpt/melt.300.restart", **evidence},
    }


FLAGS = {
    "in time": ([make_flag()], [Verdict.RIGHT]),
    "too late": ([make_flag(opened="1970-01-01T00:02:00+00:00")], [Verdict.WRONG]),
    "naming another one": ([make_flag(should_resume_from="/work/ckpt/melt.200.restart")], [Verdict.WRONG]),
    "missing": ([], [Verdict.WRONG]),
    "beside one that does not hold": ([make_flag(), make_flag("damaged-checkpoint")], [Verdict.RIGHT, Verdict.WRONG]),
    "twice": ([make_flag(), make_flag()], [Verdict.RIGHT, Verdict.RIGHT, Verdict.WRONG]),
}


@pytest.mark.parametrize(("flags", "verdicts"), FLAGS.values(), ids=FLAGS)
def test_a_flag_that_must_open(flags, verdicts):
    judge = make_judge(OLDER)
    judge.judge_flags(flags)
    assert [each.verdict for each in judge.judgements] == verdicts


@pytest.mark.parametrize(("step", "verdict"), [(300, Verdict.WRONG), (301, Verdict.RIGHT)])
def test_no_flag_where_the_first_save_is_further_than_all_before(step, verdict):
    judge = make_judge(OLDER)
    judge._attempts[1].saves = [Save(f"melt.{step}.restart", step, 50)]
    judge.judge_flags([])
    assert [each.verdict for each in judge.judgements] == [verdict]


def test_how_far_the_newest_checkpoint_is_may_be_as_old_as_two_scans():
    judge = make_judge(OLDER)
    for step in (100, 200, 300, None):
        judge.judge_row({"directory": str(DIRECTORY), "step": step}, asked_at=25)
    steps = [each for each in judge.judgements if each.subject == "jobs: step"]
    assert [each.verdict for each in steps] == [Verdict.RIGHT, Verdict.RIGHT, Verdict.WRONG, Verdict.WRONG]


TOTALS = {
    "the sum": ((100, 100), False, Verdict.RIGHT),
    "a bound that holds": ((50, 130), False, Verdict.HEDGED),
    "less, and some attempts are unknown": ((50, 50), True, Verdict.HEDGED),
    "less": ((50, 50), False, Verdict.WRONG),
    "more": ((150, 150), True, Verdict.WRONG),
}


@pytest.mark.parametrize(("bounds", "is_part", "verdict"), TOTALS.values(), ids=TOTALS)
def test_sums_over_all_runs(bounds, is_part, verdict):
    assert judge_totals("group 1", "lost seconds", bounds, 105, 10, is_part=is_part).verdict is verdict


def test_groups_hold_every_run_of_every_program_once():
    programs = [SimpleNamespace(NAME=name, LEFT_OUT=left_out) for name, left_out in (("a", {"array"}), ("b", set()))]
    groups = list_groups(programs, SCENARIOS, 9)
    runs = [run for group in groups for run in group]
    assert [len(group) for group in groups] == [7, 8, 8]
    assert runs == [(program, each) for program in programs for each in SCENARIOS if each.name not in program.LEFT_OUT]
