"""One run's removals, through a real agent: each checkpoint is one set of files, and the stop lets none begin."""

from dataclasses import replace
from itertools import count

import pytest

from ckptd.checkpoints.trash import TrashOutcome, TrashResult
from ckptd.core import retention
from ckptd.core.retention import Decision, PolicyMode
from ckptd.steps.prune import audit_entries
from ckptd.steps.prune.recovery import PruneParts
from ckptd.steps.prune.removal import STOPPED, Removal
from support.prune_facts import CLUSTER, EPOCHS


def decide(*records):
    return tuple(Decision(str(each.checkpoint.path), each, False, ("no rule keeps it",), 0) for each in records)


def make_set(shop, *names):
    """Return these files as one checkpoint, on record under the first one's name."""
    records = [shop.record()[name] for name in names]
    identities = tuple(each.checkpoint.identities[0] for each in records)
    return replace(records[0], checkpoint=replace(records[0].checkpoint, files=names, identities=identities))


def make_removal(shop, decisions, should_stop=lambda: False):
    run = retention.RunPlan(
        run=shop.run, user="alice", policy="tight", mode=PolicyMode.ENFORCE, decisions=tuple(reversed(decisions))
    )
    hands = PruneParts(shop.store, shop.agent, shop.site, CLUSTER, should_stop)
    return Removal(hands, run, "plan", (), "policy tight")


def test_a_set_of_several_files_has_one_intent_one_entry_in_the_trash_and_one_outcome(shop):
    removal = make_removal(shop, decide(make_set(shop, *EPOCHS[:3])))
    assert removal.move_all(shop.now)
    [outcome] = removal.outcomes
    [entry] = shop.audit(audit_entries.PRUNE)
    assert (outcome.result, entry.outcome) == (TrashResult.MOVED, "moved")
    assert shop.trashed() == [entry.details["act_id"]]
    assert shop.names() == EPOCHS[3:]
    assert removal.put_back("a test wants it back", shop.now)
    assert shop.names() == EPOCHS
    assert [each.outcome for each in shop.audit(audit_entries.RESTORE)] == ["restored"]


def test_a_set_of_which_one_file_may_not_be_moved_stays_whole(shop):
    (shop.root / "second-name").hardlink_to(shop.directory / EPOCHS[1])
    shop.wait(5)
    shop.look()
    removal = make_removal(shop, decide(make_set(shop, *EPOCHS[:3]), shop.record()[EPOCHS[3]]))
    assert removal.move_all(shop.now)
    assert [each.result for each in removal.outcomes] == [TrashResult.REFUSED, TrashResult.MOVED]
    assert shop.names() == [*EPOCHS[:3], *EPOCHS[4:]]
    assert len(shop.audit(audit_entries.PRUNE)) == 2
    assert shop.audit(audit_entries.RESTORE) == []


@pytest.mark.parametrize("during", [True, False])
def test_once_stopped_no_further_set_is_begun_and_the_one_in_progress_is_put_back(shop, during):
    asked = count()
    stopped_at = 3 if during else 4  # it is asked before and after each move
    removal = make_removal(
        shop, decide(*(shop.record()[name] for name in EPOCHS[:4])), lambda: next(asked) >= stopped_at
    )
    assert removal.move_all(shop.now)
    told = [(each.result, each.reason) for each in removal.outcomes if isinstance(each, TrashOutcome)]
    assert told == [(TrashResult.MOVED, None), (TrashResult.UNDONE, STOPPED) if during else (TrashResult.MOVED, None)]
    assert shop.names() == EPOCHS[1 if during else 2 :]
    assert [each.outcome for each in shop.audit(audit_entries.RESTORE)] == (["restored"] if during else [])
    assert [each for each in shop.audit() if each.finished_at is None] == []
    assert {name for name, record in shop.record().items() if record.pruned_at} == set(EPOCHS[: 1 if during else 2])
