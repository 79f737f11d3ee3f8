"""What `last = 1` may move in the directories of real frameworks and codes: exact files, whole sets, nothing else."""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints.trash import MoveRequest, TrashResult
from ckptd.core.model import CheckpointState, Role
from layouts.real import pipeline
from layouts.real.layout import ANY, OLDER, fill, write
from layouts.real.table import ROWS
from support.trash_facts import OTHER_UID, move, own, scratch

UID = os.geteuid()
BY_NAME = {row.name: row for row in ROWS}


@dataclass
class Written:
    """What one save wrote of one set."""

    number: int
    set: object
    save: object
    files: frozenset


def play(row, root, *, is_forking=False, uid=UID):
    """Write three saves, each looked at; return the watch and what was written of each set."""
    root.mkdir(exist_ok=True)
    own(root, uid)
    watch = pipeline.Watch(root, uid, is_forking=is_forking)
    written = []
    for number, save in enumerate(row.saves):
        at = pipeline.saved_at(number)
        for each in row.sets:
            files = write(root, each.files, save, at.timestamp())
            written.append(Written(number, each, save, frozenset(files)))
        write(root, row.beside, save, at.timestamp())
        _link(root, row.links, save)
        own(root, uid)
        watch.look(at + pipeline.UNTIL_SEEN)
    return watch, [one for one in written if one.files]


def _link(root, links, save):
    for name, target in links.items():
        path = root / fill(name, save)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(fill(target, save))


def there_at_the_end(written):
    """Only the last of what was written under the same names."""
    return list({(id(one.set), one.files): one for one in written}.values())


def files_of(checkpoint, root):
    return frozenset(str((Path(checkpoint.path).parent / name).relative_to(root)) for name in checkpoint.files)


def plan_at_the_end(watch, row):
    now = pipeline.saved_at(len(row.saves)) + timedelta(hours=1)
    watch.look(now)
    return watch.plan(now)


@pytest.fixture(scope="module", params=ROWS, ids=str)
def played(request, tmp_path_factory):
    """A row, and what its three saves left."""
    return request.param, *play(request.param, tmp_path_factory.mktemp("layout") / "run")


def test_each_set_is_one_checkpoint_with_its_role_and_progress(played):
    _, watch, written = played
    found = {files_of(one, watch.root): one for one in watch.scan.checkpoints}
    assert len({one.path for one in watch.scan.checkpoints}) == len(watch.scan.checkpoints), "two have the same path"
    for one in there_at_the_end(written):
        is_state = one.set.role in {Role.STATE, Role.WEIGHTS}
        if one.files not in found:
            near = [sorted(files) for files in found if files & one.files]
            assert not is_state, f"{sorted(one.files)} is no checkpoint; there are {near}"
            continue
        _check(found[one.files], one, watch.root)


def _check(checkpoint, expected, root):
    role = expected.set.role
    if role != ANY:
        assert checkpoint.state is CheckpointState.COMPLETE, (checkpoint.path, checkpoint.reason)
    if role is None:
        assert checkpoint.role is not Role.STATE, (checkpoint.path, checkpoint.role_evidence)
    elif role != ANY:
        assert checkpoint.role is role, (checkpoint.path, checkpoint.role_evidence)
    assert not expected.set.is_result or checkpoint.is_result, checkpoint.path
    if expected.set.path is not None:
        assert checkpoint.path == root / fill(expected.set.path, expected.save)
    if expected.set.moves:
        progress = tuple(getattr(expected.save, letter) for letter in expected.set.progress)
        assert checkpoint.grouping.progress == progress, (checkpoint.path, checkpoint.grouping)
        assert checkpoint.grouping.doubt is None, (checkpoint.path, checkpoint.grouping)


def test_exactly_the_older_states_may_move(played):
    row, watch, written = played
    plan = plan_at_the_end(watch, row)
    expected = {name for one in written if one.number in one.set.moves for name in one.files}
    planned = {name for decision in plan.remove for name in files_of(decision.record.checkpoint, watch.root)}
    assert planned == expected, plan.skipped or _explain(plan, planned ^ expected, watch.root)
    assert all(decision.reasons for decision in plan.decisions)


def _explain(plan, files, root):
    return [
        (decision.path, decision.record.checkpoint.role, decision.is_kept, decision.reasons)
        for decision in plan.decisions
        if files & files_of(decision.record.checkpoint, root)
    ]


def test_nothing_that_its_framework_wrote_whole_is_called_damaged(played):
    _, watch, _ = played
    damaged = [one for one in watch.scan.checkpoints if one.state is CheckpointState.DAMAGED]
    assert not damaged, [(str(one.path), one.format, one.reason) for one in damaged]


def test_the_table_has_every_row_once_and_says_why_where_nothing_moves():
    assert len(BY_NAME) == len(ROWS) >= 60
    for row in ROWS:
        assert row.source, row.name
        for each in row.sets:
            assert each.moves == OLDER or each.why, row.name


THROUGH_CHILDREN = (
    "guided-diffusion",
    "Hugging Face Trainer with DeepSpeed",
    "verl, PPO with FSDP",
    "Orbax CheckpointManager",
    "LAMMPS, a file for each process",
    "PyTorch Geometric, one file for each graph",
)


@pytest.mark.parametrize("name", THROUGH_CHILDREN)
def test_children_find_the_same_as_one_process(name, tmp_path):
    row = BY_NAME[name]
    here, _ = play(row, tmp_path / "here")
    there, _ = play(row, tmp_path / "there", is_forking=True)
    assert [_describe(each, here.root) for each in here.scan.checkpoints] == [
        _describe(each, there.root) for each in there.scan.checkpoints
    ]


def _describe(checkpoint, root):
    return checkpoint.path.relative_to(root), checkpoint.role, checkpoint.state, checkpoint.grouping, checkpoint.files


MOVED_FOR_REAL = (
    "guided-diffusion",
    "a script that saves each rank into the directory of the step",
    "a script with step and rank in the file name",
    "Composer, sharded",
    "Hugging Face Trainer with DeepSpeed",
    "Accelerate, automatic_checkpoint_naming",
    "DeepSpeed, ZeRO 1 and 2",
    "Megatron-LM, classic, pipeline and distributed optimizer",
    "OpenRLHF, PPO",
    "NeMo 1, tensor parallel",
    "timm, each epoch the best so far",
    "LAMMPS, a file for each process",
)


@pytest.mark.parametrize("name", MOVED_FOR_REAL)
def test_the_trash_takes_exactly_the_older_states(name):
    row = BY_NAME[name]
    with scratch() as root:
        watch, written = play(row, root, uid=OTHER_UID)
        before = read_names(root)
        for number, decision in enumerate(plan_at_the_end(watch, row).remove):
            outcome = move(request_for(decision, watch, number))
            assert outcome.result is TrashResult.MOVED, (decision.path, outcome)
        expected = {name for one in written if one.number in one.set.moves for name in one.files}
        assert before - read_names(root) == expected
        assert not any(path.is_dir() and not any(path.iterdir()) for path in root.iterdir()), (
            "an empty directory is left"
        )


def request_for(decision, watch, number):
    found = decision.record.checkpoint
    return MoveRequest(
        act_id=f"act-{number}",
        directory=PurePosixPath(watch.root),
        path=found.path,
        files=found.files,
        identities=found.identities,
        is_directory=found.grouping.is_directory,
        uid=watch.uid,
        reasons=decision.reasons,
        allowed_roots=(PurePosixPath(watch.root).parent,),
        markers=watch.scan.markers,
    )


def read_names(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
