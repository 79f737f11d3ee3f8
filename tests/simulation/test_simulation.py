"""A small world, watched through the daemon's own decisions. `tests/bench/rules_accuracy.py` watches larger ones."""

from dataclasses import replace

import pytest

from simulation import lost_truth, ordinary, score, together
from simulation.comparison import compare
from simulation.observer import Watch
from simulation.ordinary import make_cluster
from simulation.run_truth import HOUR
from simulation.world import BROKEN_OFF, make_world
from support.examples import FACTOR

SHARE = (2, 4)  # of the runs: one with many flags


@pytest.fixture(scope="module")
def watch():
    return Watch(make_world(17, run_count=80, days=6), seed=17).watch()


def test_the_critical_rules_find_what_is_so_and_nothing_else(watch):
    rules = score.score_rules(watch)
    counts = [rules[rule] for rule in score.CRITICAL_RULES]
    assert all(each.episodes for each in counts)
    assert sum(each.found for each in counts) >= 0.98 * sum(each.episodes for each in counts)
    assert sum(each.right for each in counts) >= 0.98 * sum(each.flags for each in counts)


@pytest.fixture(scope="module")
def cluster():
    return Watch(make_cluster(3, run_count=24, ordinary_count=220, days=6), seed=3).watch()


def test_ordinary_jobs_get_no_false_flag(cluster):
    found = score.score_ordinary(cluster)
    assert found.runs == 220
    assert found.days > 25
    assert found.wrong == []
    assert found.right > 5  # restarts that have lost work, as hedged warnings


def test_the_ledger_is_right_about_unsaved_and_redone_work(cluster):
    lost = lost_truth.measure(cluster)
    assert lost.attempt_count > 80
    assert min(lost.true_unsaved, lost.true_redone) > 20 * HOUR
    assert lost.error < 0.02
    assert lost.outside_count <= 0.02 * lost.attempt_count


def test_every_kind_of_run_is_there(cluster, watch):
    kinds = {watched.run.kind for watched in (*cluster.watched, *watch.watched)}
    assert kinds >= {*ordinary.KINDS, "samples", "improving", "preempted", *BROKEN_OFF}


def test_work_that_a_limit_takes_is_announced_an_interval_ahead(watch):
    notice = score.score_at_risk(watch)
    assert notice.predictable > 20
    assert notice.in_time >= 0.9 * notice.predictable
    assert notice.infos.precision > 0.65
    assert notice.warnings.flags > 20
    assert notice.warnings.precision >= 0.98
    assert notice.criticals.precision >= 0.98


def test_what_at_risk_calls_probable_comes_true_as_often(watch):
    opened = score.score_at_risk(watch).opened_chances
    assert len(opened) > 40
    stated, came_true = (sum(each) / len(opened) for each in zip(*opened, strict=True))
    assert abs(stated - came_true) < 0.1
    ranges = score.calibrate([(0.375, False), (0.375, True), (1.0, True)])
    assert ranges == [(0.3, 0.5, 2, 0.375, 0.5), (0.98, 1.0, 1, 1.0, 1.0)]


def test_the_next_save_is_foretold_to_within_a_tenth_of_the_interval(watch):
    errors = sorted(score.forecast_errors(watch))
    assert len(errors) > 500
    assert errors[int(len(errors) * 0.8)] < 0.1


def test_a_flag_does_not_flap(watch):
    opened = {}
    for watched in watch.watched:
        for flag in watched.flags.values():
            restart = flag.finding.evidence.get("restart_count")  # each restart may have its own
            name = flag.finding.rule, flag.finding.run, flag.finding.job_id, restart
            if name[0] == "damaged-checkpoint" and watched.run.kind == "torn-saves":
                continue  # each is another save
            opened[name] = opened.get(name, 0) + 1
    assert sum(count > 3 for count in opened.values()) <= 0.02 * len(opened)


def watch_thinned_and_whole(watch):
    """Tell of some runs that were watched as the others, and at every look; of another world at night."""
    if FACTOR > 1:
        world = together.World(seed=2, run_count=40, days=4)
        return [outcome for _, outcome in together.watch_all([world, replace(world, is_always=True)])]
    first, count = SHARE
    thinned, whole = [Watch(watch.runs, seed=watch.seed, share=SHARE, is_always=each) for each in (False, True)]
    thinned.watched = watch.watched[first::count]
    return [together.tell(each, 0.0) for each in (thinned, whole.watch())]


def test_judging_where_something_may_have_changed_finds_what_judging_at_every_look_does(watch):
    thinned, whole = watch_thinned_and_whole(watch)
    found = compare(thinned.flags, whole.flags)
    assert found.total > 80
    assert found.same + found.near >= 0.99 * found.total
    assert thinned.result.decisions < 0.5 * whole.result.decisions
    assert thinned.result.looks == whole.result.looks == whole.result.decisions


def test_shares_of_a_world_add_up_to_the_whole_of_it():
    world = together.World(seed=3, run_count=16, days=2)
    whole = together.watch_share(world)
    first, second, third = [together.watch_share(replace(world, share=(number, 3))) for number in range(3)]
    found = compare(first.flags | second.flags | third.flags, whole.flags)
    assert found.same == found.total > 30
    assert (first + second + third).result.notice.cases == whole.result.notice.cases
