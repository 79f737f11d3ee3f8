"""Acts that were cut off: the next step finds out what came of them."""

from ckptd.checkpoints.trash import TrashOutcome, TrashResult, trash_operations
from ckptd.core.model import RunKey, Unknown
from ckptd.steps.prune import audit_entries
from ckptd.steps.prune.recovery import PruneParts, recover_runs
from support.prune_facts import CLUSTER, UID


def hands(shop):
    return PruneParts(shop.store, shop.agent, shop.site, CLUSTER)


def intend(shop, action, name, act_id):
    record = shop.record()[name]
    entry = audit_entries.intend(
        action,
        shop.run,
        str(shop.directory / name),
        act_id=act_id,
        actor="test",
        details={"first_seen_at": record.first_seen_at.isoformat()},
        now=shop.now,
    )
    shop.store.audit.record(entry)


def test_an_intent_of_which_nothing_came_is_undone_and_the_checkpoint_stays_on_record(shop):
    intend(shop, audit_entries.PRUNE, "epoch_1.npz", "never-begun")
    assert recover_runs(hands(shop), [shop.run], shop.now) == set()
    assert shop.audit(audit_entries.PRUNE)[0].outcome == "undone: cut off"
    assert shop.record()["epoch_1.npz"].pruned_at is None


def test_a_move_whose_outcome_was_not_recorded_is_found_in_the_trash(shop):
    shop.act()
    entry = shop.audit(audit_entries.PRUNE)[0]
    intend(shop, audit_entries.PRUNE, "epoch_1.npz", entry.details["act_id"])
    assert recover_runs(hands(shop), [shop.run], shop.now) == set()
    assert shop.audit(audit_entries.PRUNE)[-1].outcome == "moved: cut off"
    assert shop.record()["epoch_1.npz"].pruned_at is not None


def test_ids_that_somebody_wrote_into_a_trash_of_their_own_settle_nobody_elses_acts(shop):
    intend(shop, audit_entries.PRUNE, "epoch_1.npz", "stolen")
    forged = TrashOutcome(act_id="stolen", result=TrashResult.MOVED, path="/elsewhere", size_bytes=1)

    class Forging:
        def run(self, batches):
            answers = shop.agent.run(batches)
            if batches[0].operation == "recover":
                answers[-1][-1] = {"outcomes": [trash_operations.encode_outcome(forged)], "reached": None}
            return answers

    stranger = RunKey(CLUSTER, UID + 1, str(shop.root / "elsewhere"))
    assert recover_runs(PruneParts(shop.store, Forging(), shop.site, CLUSTER), [shop.run, stranger], shop.now) == set()
    assert shop.audit(audit_entries.PRUNE)[0].outcome == "undone: cut off"
    assert [entry.actor for entry in shop.audit(audit_entries.RECOVER)] == ["recovery"]


def test_while_the_agent_is_silent_the_run_is_left_alone(shop):
    intend(shop, audit_entries.PRUNE, "epoch_1.npz", "who-knows")

    class Silent:
        def run(self, batches):
            return [[Unknown(what="x", reason="it did not answer in time")] * len(batch.items) for batch in batches]

    silent = PruneParts(shop.store, Silent(), shop.site, CLUSTER)
    assert recover_runs(silent, [shop.run], shop.now) == {shop.run}
    assert shop.audit(audit_entries.PRUNE)[0].outcome is None


# what a step leaves out
