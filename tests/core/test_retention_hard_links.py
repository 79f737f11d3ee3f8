"""What has a second name among the checkpoints of its run stays, and the plan says so: to move it would be refused."""

from dataclasses import replace

from ckptd.core import retention
from ckptd.core.model import FileIdentity, Grouping, Role
from core.retention_facts import NOW, policy_of, removed, run_of, saved

STAYS = ("the same file has another name there (hard link)",)


def save_directory(number):
    files = tuple(f"step_{number}/{name}.pt" for name in ("model", "optimizer"))
    identities = tuple(FileIdentity(1, 10 * number + place, 50, 1, 1) for place in range(2))
    return saved(f"step_{number}", 20 - number, step=number, files=files, identities=identities)


def explain(run, name):
    found = retention.plan_run(run, policy_of(), NOW).decisions
    return next(each.reasons for each in found if each.path.endswith(f"/{name}"))


def test_a_checkpoint_of_several_files_of_which_another_one_has_one_stays():
    records = [save_directory(number) for number in range(1, 5)]
    weights = saved("final.pt", 5, by=None, role=Role.WEIGHTS, grouping=Grouping())
    export = replace(weights, checkpoint=replace(weights.checkpoint, identities=records[1].checkpoint.identities[:1]))
    run = run_of(*records, export)
    assert removed(run) == {"step_1", "step_3"}
    assert explain(run, "step_2") == STAYS


def test_a_checkpoint_whose_other_name_was_removed_does_not_stay():
    records = [save_directory(number) for number in range(1, 5)]
    link = replace(saved("copy_2.pt", 5, by=None), deleted_at=NOW)
    link = replace(link, checkpoint=replace(link.checkpoint, identities=records[1].checkpoint.identities[:1]))
    assert removed(run_of(*records, link)) == {"step_1", "step_2", "step_3"}
