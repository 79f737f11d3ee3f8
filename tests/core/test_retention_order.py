"""Which checkpoint is the newest, which got furthest, and from which a running attempt may have resumed."""

from dataclasses import replace

import pytest

from ckptd.core import retention
from ckptd.core.model import (
    Certainty,
    CheckpointState,
    FileIdentity,
    RestartKind,
    Resume,
    ResumeCandidate,
    ResumeReason,
    Role,
)
from ckptd.core.retention import KeepEvery, KeepLast, Reference, floor
from core.retention_facts import DIRECTORY, NOW, attempt, hours, names, policy_of, removed, run_of, saved, series


def kept(run, policy=None, **context):
    made = retention.plan_run(run, policy or policy_of(), NOW, **context)
    assert made.skipped is None, made.skipped
    return names(made.keep)


def reasons_of(name, run, policy=None):
    made = retention.plan_run(run, policy or policy_of(), NOW)
    return next(one.reasons for one in made.decisions if one.path == f"{DIRECTORY}/{name}")


# rollback within one attempt


def rolled_back():
    before = series(5, oldest=100)
    after = [saved(f"step_{step}.pt", 60 - n, step=step) for n, step in enumerate(range(256, 263))]
    return run_of(*before, *after)


def test_after_a_rollback_the_last_are_those_of_the_new_lineage():
    assert kept(rolled_back(), policy_of(KeepLast(2))) == {"step_261.pt", "step_262.pt", "step_500.pt"}
    assert "the furthest progress of its series (step_#.pt)" in reasons_of("step_500.pt", rolled_back())


def test_after_a_rollback_of_a_training_that_started_over_its_own_furthest_stays_beside_that_of_the_earlier_one():
    earlier = [saved(f"step_{n}.pt", 60 - n / 1000, step=n, by=(1, 0)) for n in (5100, 5200)]
    again = [saved(f"step_{step}.pt", 40 - n, step=step, by=(2, 0)) for n, step in enumerate((100, 200, 300, 150, 160))]
    run = run_of(*earlier, *again, attempts=(attempt(begun=70, ended=50), attempt(job=2, begun=45)))
    assert kept(run) == {"step_160.pt", "step_300.pt", "step_5200.pt"}
    assert "the furthest progress of the latest attempt in its series (step_#.pt)" in reasons_of("step_300.pt", run)


def test_that_a_rollback_may_be_a_copy_shows_also_in_parameters_that_may_not_be_removed():
    scan = NOW - hours(50)  # the first one, which found all of them
    states = [saved(f"step_{n}.pt", 110 - n / 100, step=n, first_seen_at=scan) for n in (100, 200, 300, 400)]
    weights = saved("step_50.pt", 60, step=50, first_seen_at=scan, role=Role.WEIGHTS)
    newest = [saved(f"step_{n}.pt", 59 - n / 100, step=n) for n in (150, 250)]
    run = run_of(*states, weights, *newest)
    policy = policy_of(KeepLast(2))
    assert removed(run, policy) <= removed(run, replace(policy, roles=frozenset({Role.STATE, Role.WEIGHTS})))
    assert "step_300.pt" in kept(run, policy)


def copied_by_name(*, damaged=()):
    """Steps 800 to 1200 in the order of their names: 1000, 1100, 1200, 800, 900."""
    return [
        saved(
            f"step_{step}.pt",
            5 - n / 1000,
            step=step,
            first_seen_at=NOW - hours(1),
            **(_DAMAGED if step in damaged else {}),
        )
        for n, step in enumerate((1000, 1100, 1200, 800, 900))
    ]


_DAMAGED = {"state": CheckpointState.DAMAGED, "reason": "it is cut off"}


def test_of_a_copy_in_the_order_of_names_the_last_by_progress_stay_too():
    run = run_of(*copied_by_name())
    assert kept(run, policy_of(KeepLast(2))) == {"step_800.pt", "step_900.pt", "step_1100.pt", "step_1200.pt"}
    assert "last 2 by progress: no scan saw the run go back to an earlier state" in reasons_of(
        "step_1100.pt", run, policy_of(KeepLast(2))
    )


def test_a_rollback_that_scans_watched_needs_no_last_by_progress():
    seen = [replace(each, first_seen_at=NOW - hours(4 - n / 10)) for n, each in enumerate(copied_by_name())]
    assert kept(run_of(*seen), policy_of(KeepLast(2))) == {"step_800.pt", "step_900.pt", "step_1200.pt"}


def test_a_damaged_one_stays_where_no_complete_one_got_as_far():
    run = run_of(*copied_by_name(damaged=(1100, 1200)))
    assert kept(run) == {"step_900.pt", "step_1000.pt", "step_1100.pt", "step_1200.pt"}
    assert reasons_of("step_1200.pt", run) == ("damaged, and no complete one of its series got as far",)


def test_every_counts_anew_in_the_lineage_of_a_rollback():
    gone = removed(rolled_back(), policy_of(KeepEvery(250, "steps")))
    assert gone == {"step_200.pt", "step_400.pt", *(f"step_{step}.pt" for step in range(257, 262))}


def test_a_touch_of_an_old_one_does_not_lose_the_furthest():
    untouched, touched = series(5, oldest=100)[1:], saved("step_100.pt", 2, step=100)
    assert kept(run_of(touched, *untouched)) == {"step_100.pt", "step_500.pt"}


def test_of_two_written_at_the_same_instant_the_one_with_more_progress_is_newer():
    same = [saved(f"step_{n}.pt", 5, step=n) for n in (9, 10, 11)]
    assert removed(run_of(*reversed(same))) == {"step_9.pt", "step_10.pt"}


def with_names(record, **grouping):
    found = record.checkpoint
    return replace(record, checkpoint=replace(found, grouping=replace(found.grouping, **grouping)))


def test_a_program_that_counts_steps_anew_in_each_epoch_got_furthest_in_the_last_epoch():
    records = [saved(f"e_{e}_{s}.pt", 50 - 10 * e - s / 100, epoch=e, step=s) for e in (1, 2) for s in (100, 900)][:3]
    records = [
        with_names(one, series="e_#_#.pt", progress=(one.checkpoint.epoch, one.checkpoint.step)) for one in records
    ]
    assert removed(run_of(*records)) == {"e_1_100.pt", "e_1_900.pt"}


def test_what_was_pruned_still_counts_for_how_far_an_attempt_had_got():
    gone = saved("step_300.pt", 50, step=300, pruned_at=NOW, deleted_at=NOW)
    after = [saved(f"step_{step}.pt", 40 - step / 100, step=step) for step in (200, 210, 220)]
    policy = policy_of(KeepEvery(1000, "steps"))
    assert removed(run_of(saved("step_100.pt", 60, step=100), gone, *after), policy) == {"step_210.pt"}


# what a running attempt may have resumed from


def resumed(*own, there=None, **changes):
    attempts = [attempt(0, ended=60), attempt(1, begun=50, **changes)]
    earlier = series(8, oldest=200) if there is None else there
    return run_of(*earlier, *own, attempts=attempts)


def test_before_its_first_own_checkpoint_every_one_that_was_there_is_a_candidate():
    assert removed(resumed()) == set()
    assert "has not completed a checkpoint in this location yet" in " ".join(reasons_of("step_300.pt", resumed()))


def test_its_first_own_checkpoint_bounds_what_it_may_have_resumed_from():
    own = [saved(f"step_{step}.pt", 40 - step / 100, step=step, by=(1, 1)) for step in (550, 650)]
    assert kept(resumed(*own)) == {"step_400.pt", "step_500.pt", "step_650.pt", "step_800.pt"}


def test_a_first_own_checkpoint_that_is_gone_still_bounds_it():
    own = saved("step_900.pt", 40, step=900, by=(1, 1), deleted_at=NOW)
    later = saved("step_1000.pt", 30, step=1000, by=(1, 1))
    assert kept(resumed(own, later)) == {"step_700.pt", "step_800.pt", "step_1000.pt"}


def test_what_a_person_copied_there_meanwhile_is_not_its_only_first_own_checkpoint():
    there = series(8, oldest=200)
    pruned = [replace(one, pruned_at=NOW - hours(55), deleted_at=NOW - hours(55)) for one in there[:3]]
    copied = saved("step_200.pt", 49, step=200, by=(1, 1), inode=999)
    own = [saved(f"step_{step}.pt", 50 - step / 100, step=step, by=(1, 1)) for step in (900, 1000)]
    run = resumed(copied, *own, there=[*pruned, *there[3:]])
    assert kept(run) == {"step_200.pt", "step_700.pt", "step_800.pt", "step_1000.pt"}


def test_where_none_is_near_the_furthest_below_it_may_be_the_one():
    there = series(3, oldest=200)
    assert kept(resumed(saved("step_900.pt", 40, step=900, by=(1, 1)), there=there)) == {"step_300.pt", "step_900.pt"}


def test_an_attempt_that_started_afresh_resumed_from_none():
    own = saved("step_50.pt", 40, step=50, by=(1, 1))
    assert kept(resumed(own)) == {"step_50.pt", "step_800.pt"}


def test_a_first_own_checkpoint_that_does_not_state_its_progress_bounds_nothing():
    own = saved("last.pt", 40, by=(1, 1))
    assert removed(resumed(own)) == set()
    assert "does not state its progress" in " ".join(reasons_of("step_100.pt", resumed(own)))


def test_data_that_the_attempt_wrote_first_says_nothing_of_what_it_resumed_from():
    samples = [saved(f"sample_{n}.npz", 45 - n, step=n, by=(1, 1), role=Role.DATA) for n in (1, 2, 3)]
    assert removed(resumed(*samples)) == set()


def test_data_that_a_person_named_is_nothing_to_resume_from():
    samples = [saved(f"sample_{n}.npz", 90 - n, role=Role.DATA) for n in (1, 2, 3)]
    gone = removed(resumed(there=[*series(8, oldest=200), *samples]), policy_of(prune_files=("sample_*",)))
    assert gone == {"sample_1.npz", "sample_2.npz"}


def test_what_is_taken_for_what_it_resumed_from_stays_with_every_other_candidate():
    names = ("step_100.pt", "step_300.pt")
    resume = Resume(
        certainty=Certainty.INFERRED,
        reason=ResumeReason.PROGRESS,
        path=f"{DIRECTORY}/step_300.pt",
        candidates=tuple(ResumeCandidate(f"{DIRECTORY}/{name}", NOW) for name in names),
    )
    own = saved("step_900.pt", 40, step=900, by=(1, 1))
    run = resumed(own)
    run = replace(run, attempts=(run.attempts[0], replace(run.attempts[1], resumed_from=resume)))
    assert set(names) <= kept(run)
    assert "may have resumed from it" in " ".join(reasons_of("step_100.pt", run))
    assert "probably resumed from it" in " ".join(reasons_of("step_300.pt", run))


def test_once_the_attempt_has_ended_nothing_is_a_candidate():
    ended = replace(resumed(), attempts=(attempt(0, ended=60), attempt(1, begun=50, ended=1)))
    assert kept(ended) == {"step_800.pt"}


def test_a_first_attempt_in_a_directory_with_earlier_checkpoints_is_asked_as_well():
    attempts = [attempt(0, begun=300, ended=60), attempt(0, job=2, begun=50)]
    run = run_of(*series(4, oldest=200), attempts=attempts)
    assert attempts[1].kind is None
    assert removed(run) == set()
    assert removed(replace(run, attempts=(attempts[0], replace(attempts[1], kind=RestartKind.RESUBMIT)))) == set()


# references


@pytest.mark.parametrize("path", ["step_200.pt", "step_200.pt/model.pt"])
def test_what_is_referred_to_stays_by_its_own_path_and_by_those_of_its_members(path):
    records = [
        saved(
            f"step_{n}00.pt",
            20 - n,
            step=n * 100,
            files=(f"step_{n}00.pt/model.pt",),
        )
        for n in (1, 2, 3)
    ]
    reference = Reference(f"{DIRECTORY}/{path}", "job 7 (PENDING) names it")
    made = retention.plan_run(run_of(*records), policy_of(), NOW, references=[reference])
    assert names(made.remove) == {"step_100.pt"}
    assert ("job 7 (PENDING) names it",) in {one.reasons for one in made.keep}
    run = run_of(*records)
    planned = retention.plan([(run, policy_of())], NOW, references={run.key: [reference]})
    assert names(planned.runs[0].remove) == {"step_100.pt"}


@pytest.mark.parametrize("last_of_four", [0, 97])
def test_names_of_parts_are_read_of_what_is_there_and_not_of_all_that_was_pruned(monkeypatch, last_of_four):
    def save(n):
        numbers = range(4 if n <= last_of_four else 2)
        files = tuple(f"step_{n}/gpu{k}.pt" for k in numbers)
        identities = tuple(FileIdentity(1, 10 * n + k, 50, 1, 1) for k in numbers)
        record = saved(f"step_{n}", 200 - n, step=n, files=files, identities=identities)
        whole = record.checkpoint
        parts = (replace(whole, path=whole.path.parent / file, files=(file,), identities=()) for file in files)
        gone_at = NOW if n <= 95 else None
        return replace(record, checkpoint=replace(whole, parts=tuple(parts)), pruned_at=gone_at, deleted_at=gone_at)

    read = []
    monkeypatch.setattr(floor, "_name_parts", lambda found, name=floor._name_parts: read.append(found) or name(found))
    stays = {last_of_four, 99} if last_of_four > 95 else {last_of_four}  # 99 shows that 100 is whole
    assert removed(run_of(*map(save, range(1, 101)))) == {f"step_{n}" for n in range(96, 100) if n not in stays}
    assert len(read) <= 5
