"""A world as real files: scanned by limited children, planned, moved to the real trash, and compared with the truth."""

import os
from datetime import UTC, datetime
from pathlib import PurePosixPath

from ckptd.checkpoints import trash
from ckptd.checkpoints.scanning.inspection import inspect_tree
from layouts import pipeline, truth
from layouts.trainings import BEGAN_AT
from support.trash_facts import OTHER_UID, own, read_files, scratch


class RealObserver(pipeline.Observer):
    """Scans real files. Their change times are of now, their times of writing those of the world."""

    uid = OTHER_UID

    def __init__(self, world, root):
        super().__init__(world)
        self.root = PurePosixPath(root)

    def _inspect(self, now):
        found = inspect_tree(self.root, now=now)
        assert not found.problems
        return found.checkpoints, found.markers


def write_files(world, root):
    for path, (data, at) in world.files().items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, (BEGAN_AT + at, BEGAN_AT + at))
    for path, target in world.links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    own(root)


def move(decision, observer):
    """Move one checkpoint to the trash as the daemon does."""
    found = decision.record.checkpoint
    request = trash.MoveRequest(
        act_id=f"act-{abs(hash(decision.path))}",
        directory=observer.root,
        path=found.path,
        files=found.files,
        identities=found.identities,
        is_directory=found.grouping.is_directory,
        uid=observer.uid,
        reasons=decision.reasons,
        allowed_roots=(observer.root.parent,),
        markers=observer.scan.markers,
    )
    outcome = trash.move_aside(request, now=datetime.now(UTC))
    assert outcome.result is trash.TrashResult.MOVED, outcome


def prune_and_check(world, asked):
    """Carry out the plan for a world on a real disk; check what is left against the truth."""
    end = world.ends_at
    with scratch() as root:
        write_files(world, root)
        before = read_files(root)
        observer = RealObserver(world, root)
        observer.look(end + 2 * pipeline.HOUR)
        plan = observer.plan(end + 2 * pipeline.HOUR + 600, asked)
        assert not observer.judge(plan, world.saves, world.data, asked).violations
        for decision in plan.remove:
            move(decision, observer)
        left = read_files(root)
        links = [path for path in world.links if not os.path.exists(root / path)]
    assert not links, f"{links} point nowhere"
    assert left.items() <= before.items()
    check_left(world, asked, frozenset(left))


def check_left(world, asked, left):
    """Check that each true set is there whole or not at all, and that all that must stay is there."""
    newest = truth.list_newest(world.saves, asked.last)
    must = truth.list_must(world.saves, asked)
    for save in world.saves:
        assert save.members <= left or save.members.isdisjoint(left), f"torn: {min(save.files)}"
        if truth.protection_of(save, newest, asked):
            assert save.members <= left, f"gone: {min(save.files)}"
    assert truth.list_kept_data(world.data, asked) | {*world.markers} <= left
    gone = [save for save in must if save.members.isdisjoint(left)]
    return len(gone), len(must)
