from dataclasses import replace

import pytest

from ckptd.core.checkpoint_sets import grouping
from ckptd.core.model import CheckpointState, FileIdentity, Level, Unknown
from ckptd.core.runs import progress, recordable_numbers
from core.scan_records import credit_of, make_attempt, record
from support.queue_facts import at, make_checkpoint, make_scan, merge


def other_content(checkpoint, written, inode=None):
    identity = checkpoint.identities[0]
    identity = FileIdentity(identity.device, inode or identity.inode + 1, 12, round(at(written).timestamp() * 1e9))
    return replace(checkpoint, identities=(identity,), modified_at=at(written))


def test_a_complete_checkpoint_is_complete_since_its_last_byte():
    (found,) = record(make_checkpoint(written=0), seen=5)
    assert (found.first_seen_at, found.completed_at, found.started_writing_at) == (at(5), at(0), None)


def test_a_checkpoint_that_this_hosts_clock_was_behind_is_dated_by_its_files_once_the_clock_has_passed_them():
    saved = make_checkpoint(written=60)
    (known,) = record(saved, seen=2)
    assert (known.first_seen_at, known.completed_at) == (at(2), at(2))
    assert merge([known], make_scan(59, saved)).is_empty
    (dated,) = merge([known], make_scan(61, saved)).changed
    assert dated == replace(known, completed_at=at(60))
    assert merge([dated], make_scan(62, saved)).is_empty


def test_a_checkpoint_that_was_dated_by_its_files_keeps_its_date():
    saved = make_checkpoint(written=3)
    (known,) = record(saved, seen=3)
    assert merge([known], make_scan(61, saved)).is_empty
    (later,) = merge([known], make_scan(62, other_content(saved, 61))).appeared
    assert later.completed_at == at(61)


def test_the_same_look_twice_changes_nothing():
    scan = make_scan(1, make_checkpoint("a"), make_checkpoint("b"))
    assert merge(record(*scan.checkpoints), scan).is_empty


def test_a_look_from_another_mount_of_the_same_file_system_changes_only_where_files_are():
    (known,) = record(make_checkpoint("a"))
    moved = tuple(each._replace(device=each.device + 1) for each in known.checkpoint.identities)
    changes = merge([known], make_scan(2, replace(known.checkpoint, identities=moved)))
    assert [each.checkpoint.identities for each in changes.changed] == [moved]
    assert (changes.appeared, changes.gone) == ((), ())


def test_what_was_complete_is_not_damaged_once_only_an_older_one_with_more_ranks_is_left():
    names = {100: 4, 200: 2, 300: 2, 400: 2}
    ranks = [
        make_checkpoint(f"step_{step}/rank_{k}.pt", written=step / 100) for step in names for k in range(names[step])
    ]
    grouped = [_group(ranks), _group([each for each in ranks if each.path.parent.name in {"step_100", "step_400"}])]
    assert [each.state for each in grouped[0]][2:] == [CheckpointState.COMPLETE] * 2
    assert [each.state for each in grouped[1]] == [CheckpointState.COMPLETE, CheckpointState.DAMAGED]
    known = record(*grouped[0])
    changes = merge(known, make_scan(3, *grouped[1]))
    assert not [each.checkpoint for each in changes.changed if each.checkpoint.state is CheckpointState.DAMAGED]


def _group(pieces):
    return grouping.group(
        pieces, (), root=pieces[0].path.parents[1], unchanged_since_ns=round(at(99).timestamp() * 1e9)
    )


def test_a_save_seen_being_written_has_its_beginning_and_its_end():
    writing = make_checkpoint(written=1, state=CheckpointState.WRITING)
    known = record(writing, seen=1)
    changes = merge(known, make_scan(3, other_content(make_checkpoint(), 2, inode=writing.identities[0].inode)))
    (done,) = changes.changed
    assert (done.first_seen_at, done.started_writing_at, done.completed_at) == (at(1), at(1), at(2))
    assert (changes.appeared, changes.gone) == ((), ())


def test_a_save_that_is_renamed_when_it_is_whole_began_with_its_temporary_file():
    temporary = make_checkpoint(".epoch_3.npz.tmp", written=1, state=CheckpointState.WRITING)
    known = record(temporary, make_checkpoint("epoch_2.npz", written=0), seen=1)
    renamed = other_content(make_checkpoint("epoch_3.npz"), 2, inode=temporary.identities[0].inode)
    changes = merge(known, make_scan(3, make_checkpoint("epoch_2.npz", written=0), renamed))
    (done,) = changes.appeared
    assert (done.started_writing_at, done.completed_at) == (at(1), at(2))
    assert [each.checkpoint.path.name for each in changes.gone] == [".epoch_3.npz.tmp"]
    other = other_content(make_checkpoint("epoch_4.npz"), 2, inode=99)
    assert [each.started_writing_at for each in merge(known, make_scan(3, other)).appeared] == [None]


def test_what_replaces_a_complete_checkpoint_is_another_and_the_old_one_is_gone():
    old = make_checkpoint("checkpoint", step=1)
    changes = merge(record(old), make_scan(5, other_content(replace(old, step=2), 4)))
    assert [(known.checkpoint.step, known.deleted_at) for known in changes.gone] == [(1, at(5))]
    assert [(known.checkpoint.step, known.first_seen_at) for known in changes.appeared] == [(2, at(5))]


def make_pair(*names):
    """A complete directory with two members; the inodes are those of their first names."""
    identities = tuple(FileIdentity(1, inode, 10, 5) for inode in (71, 72))
    return replace(make_checkpoint("epoch_1", written=0), files=names, identities=identities)


@pytest.mark.parametrize(
    ("before", "after", "is_renamed"),
    [
        (("epoch_1/it_200.pt", "epoch_1/it_300.pt"), ("epoch_1/keep_it_200.pt", "epoch_1/it_300.pt"), True),
        (("epoch_1/it_200.pt", "epoch_1/it_300.pt"), ("epoch_1/it_200.pt", "epoch_1/mine/it_300.pt"), True),
        (("epoch_1/it_200.pt", "epoch_1/it_300.pt"), ("epoch_1/it_200.pt", "epoch_1/.it_300.pt.tmp"), True),
        (("epoch_1/.it_200.pt.tmp", "epoch_1/it_300.pt"), ("epoch_1/it_200.pt", "epoch_1/it_300.pt"), False),
        (("epoch_1/it_200.pt", "epoch_1/it_300.pt"), ("epoch_1/it_200.pt", "epoch_1/it_300.pt"), False),
    ],
)
def test_a_file_that_a_person_renames_within_a_complete_directory_is_remembered(before, after, is_renamed):
    known = record(make_pair(*before))
    changes = merge(known, make_scan(2, make_pair(*after)))
    assert (changes.appeared, changes.gone) == ((), ())
    now = changes.changed or known
    assert [each.renamed_at for each in now] == [at(2) if is_renamed else None]
    later = merge(now, make_scan(3, make_pair(*after)))
    assert later.is_empty


def test_a_directory_to_which_a_file_is_added_stays_the_same_checkpoint():
    identities = (FileIdentity(1, 7, 10, 1), FileIdentity(1, 8, 10, 1))
    old = make_checkpoint("checkpoint-5", files=("m", "n"), identities=identities)
    new = replace(old, files=("m", "n", "o"), identities=(*identities, FileIdentity(1, 9, 1, 2)))
    changes = merge(record(old), make_scan(5, new))
    assert (len(changes.changed), changes.gone) == (1, ())


def put(checkpoint, name, written):
    """The same checkpoint with one more file, that was written later or changed."""
    identity = FileIdentity(1, 900, 20, round(at(written).timestamp() * 1e9))
    kept = [(file, each) for file, each in zip(checkpoint.files, checkpoint.identities, strict=True) if file != name]
    files, identities = zip(*kept, (name, identity), strict=True)
    return replace(checkpoint, files=files, identities=identities)


@pytest.mark.parametrize("name", ["step_20/notes.txt", "step_20/extra.bin", "step_20/config.yaml"])
def test_a_note_that_is_put_into_an_old_checkpoint_proves_no_writer(name):
    identities = (FileIdentity(1, 7, 10, 1), FileIdentity(1, 8, 10, 1), FileIdentity(1, 9, 10, 1))
    files = ("step_20/model.pt", "step_20/optimizer.pt", "step_20/config.yaml")
    old = make_checkpoint("step_20", written=0, files=files, identities=identities)
    (known,) = record(old, seen=5)
    assert known.attempt is None
    attempt = make_attempt()
    (changed,) = merge([known], make_scan(9, put(old, name, 8)), [attempt], looked=5).changed
    assert (changed.attempt, changed.completed_at) == (None, at(0))
    young = replace(put(old, name, 8), state=CheckpointState.WRITING, modified_at=at(8))
    (changed,) = merge([known], make_scan(9, young), [attempt], looked=5).changed
    (settled,) = merge([changed], make_scan(12, replace(young, state=CheckpointState.COMPLETE)), [attempt], 9).changed
    assert (settled.attempt, settled.completed_at) == (None, at(0))


def test_a_state_that_was_written_again_has_a_new_writer_although_the_rest_stayed():
    old = make_checkpoint(
        "step_20", files=("model.pt", "a.yaml"), identities=(FileIdentity(1, 7, 10, 1), FileIdentity(1, 8, 10, 1))
    )
    again = replace(put(old, "model.pt", 8), modified_at=at(8))
    attempt = make_attempt()
    changes = merge(record(old, seen=5), make_scan(9, again), [attempt], looked=5)
    assert [each.attempt for each in changes.appeared] == [credit_of(attempt)]


@pytest.mark.parametrize("kept", ["restart.sh", "config.json"])
def test_a_state_whose_every_file_is_another_replaces_the_old_one_although_a_script_stayed(kept):
    """After a restart DMTCP overwrites its images, and not the script that restarts them."""
    names = (kept, "rank_0.bin", "rank_1.bin")
    first = make_directory_checkpoint(*((name, number) for number, name in enumerate(names)))
    (known,) = record(first)
    again = make_directory_checkpoint((kept, 0), ("rank_0.bin", 11), ("rank_1.bin", 12), written=3)
    changes = merge([known], make_scan(4, again))
    assert [each.checkpoint for each in changes.appeared] == [again]
    assert [(each.deleted_at, each.completed_at) for each in changes.gone] == [(at(4), known.completed_at)]
    partly = make_directory_checkpoint((kept, 0), ("rank_0.bin", 11), ("rank_1.bin", 2), written=3)
    assert merge([known], make_scan(4, partly)).appeared == ()  # a save that goes on


def make_directory_checkpoint(*files, written=0):
    """A checkpoint of several files, each with its inode."""
    identities = tuple(FileIdentity(1, inode, 10, inode) for _, inode in files)
    made = make_checkpoint("epoch_1", written=written)
    return replace(made, files=tuple(f"epoch_1/{name}" for name, _ in files), identities=identities)


def test_a_file_system_mounted_anew_has_another_device_and_the_same_checkpoints():
    old = make_checkpoint()
    identity = old.identities[0]._replace(device=77)
    attempt = make_attempt()
    (known,) = merge((), make_scan(1, old), [attempt], looked=-1).appeared
    changes = merge([known], make_scan(5, replace(old, identities=(identity,))), looked=1)
    assert [found.attempt for found in changes.changed] == [credit_of(attempt)]


def test_only_a_whole_look_says_that_a_checkpoint_is_gone():
    known = record(make_checkpoint("a"), make_checkpoint("b"))
    partial = make_scan(5, make_checkpoint("a"), problems=(Unknown(what="sub", reason="Input/output error"),))
    assert merge(known, partial).is_empty
    changes = merge(known, make_scan(5, make_checkpoint("a")))
    assert [(gone.checkpoint.path.name, gone.deleted_at) for gone in changes.gone] == [("b", at(5))]


def test_a_pruned_checkpoint_does_not_come_back_as_itself():
    known = replace(record(make_checkpoint())[0], deleted_at=at(3), pruned_at=at(3))
    changes = merge([known], make_scan(4, make_checkpoint()))
    assert (len(changes.appeared), changes.changed) == (1, ())


def test_of_two_records_of_one_checkpoint_the_first_stays():
    (first,) = record(make_checkpoint())
    second = replace(first, first_seen_at=at(3), attempt=None)
    changes = merge([first, second], make_scan(4, make_checkpoint()))
    assert [(each.first_seen_at, each.deleted_at) for each in changes.gone] == [(at(3), at(4))]
    assert (changes.appeared, changes.changed) == ((), ())


@pytest.mark.parametrize(
    ("checkpoint", "started", "ended", "looked", "is_credited"),
    [
        (make_checkpoint(written=1), 0, None, 0, True),
        (make_checkpoint(written=1), 0, None, None, False),
        (make_checkpoint(written=-30), 0, None, 0, False),
        (make_checkpoint(written=1), 0, 1, 0, True),
        (make_checkpoint(written=9), 0, 5, 0, False),
        (make_checkpoint(written=1, owner_uids=frozenset({1000, 0})), 0, None, 0, False),
        (make_checkpoint(written=1, owner_uids=frozenset()), 0, None, 0, False),
    ],
    ids=[
        "written while it ran",
        "never looked before",
        "older than the attempt",
        "its last act",
        "after its end",
        "another owner's file in it",
        "owner not known",
    ],
)
def test_an_attempt_is_credited_only_with_what_was_seen_being_written(checkpoint, started, ended, looked, is_credited):
    attempt = make_attempt(started, ended)
    (found,) = merge((), make_scan(10, checkpoint), [attempt], looked=looked).appeared
    assert found.attempt == (credit_of(attempt) if is_credited else None)


def test_the_latest_of_overlapping_attempts_is_credited():
    first, second = make_attempt(0), replace(make_attempt(5), restart_count=1)
    (found,) = merge((), make_scan(10, make_checkpoint(written=8)), [second, first], looked=0).appeared
    assert found.attempt == credit_of(second)


def test_content_changed_by_nobody_known_loses_its_credit():
    attempt = make_attempt(0, 2)
    old = make_checkpoint(written=1, state=CheckpointState.WRITING)
    (known,) = merge((), make_scan(2, old), [attempt], looked=0).appeared
    changes = merge([known], make_scan(60, other_content(old, 50)), [attempt], looked=2)
    assert [found.attempt for found in changes.changed] == [None]


def test_a_shallower_look_at_the_same_bytes_keeps_what_a_deeper_one_found():
    full = make_checkpoint(level=Level.FULL, state=CheckpointState.DAMAGED, reason="checksum of data/3")
    changes = merge(record(full), make_scan(5, make_checkpoint(is_best=True)))
    (found,) = changes.changed
    assert (found.checkpoint.state, found.checkpoint.level) == (CheckpointState.DAMAGED, Level.FULL)
    assert found.checkpoint.is_best is True


def test_a_full_verification_holds_for_the_bytes_that_were_verified():
    (known,) = record(make_checkpoint(level=Level.FULL), seen=3)
    assert known.verified_full_at == at(3)
    assert merge([known], make_scan(4, make_checkpoint())).is_empty
    grown = replace(known, checkpoint=replace(known.checkpoint, state=CheckpointState.WRITING))
    (changed,) = merge([grown], make_scan(5, other_content(make_checkpoint(), 4))).changed
    assert changed.verified_full_at is None


def touch(checkpoint):
    """Return the checkpoint as a scan shows it after a write whose file times were set back."""
    changed = tuple(each._replace(changed_ns=each.changed_ns + 1) for each in checkpoint.identities)
    return replace(checkpoint, identities=changed)


def test_a_verdict_on_all_bytes_does_not_outlast_a_write_with_its_times_set_back():
    (known,) = record(make_checkpoint(level=Level.FULL), seen=3)
    (changed,) = merge([known], make_scan(5, touch(make_checkpoint()))).changed
    assert (changed.verified_full_at, changed.checkpoint.level) == (None, Level.STRUCTURE)
    assert changed.completed_at == known.completed_at


def test_damage_that_only_reading_all_bytes_shows_is_believed_until_the_content_changes():
    (known,) = record(make_checkpoint(level=Level.FULL, state=CheckpointState.DAMAGED, reason="checksum"))
    (changed,) = merge([known], make_scan(5, touch(make_checkpoint()))).changed
    assert changed.checkpoint.state is CheckpointState.DAMAGED


def test_a_scan_that_reads_nothing_again_does_not_renew_a_verdict():
    (known,) = record(make_checkpoint(level=Level.FULL), seen=3)
    assert merge([known], make_scan(9, known.checkpoint)).is_empty


def make_set(**changes):
    """Return a set of two parts as a scan shows it, and its parts."""
    model, optimizer = make_checkpoint("step_5/model.pt"), make_checkpoint("step_5/optimizer.pt")
    whole = replace(
        model,
        path=model.path.parent,
        files=(*model.files, *optimizer.files),
        identities=(*model.identities, *optimizer.identities),
        parts=(model, optimizer),
        **changes,
    )
    return whole, model, optimizer


def read_whole(part, **changes):
    return replace(part, level=Level.FULL, **changes)


def verify(whole, *found):
    return progress.merge_verified(record(whole), found, at(9)).changed


def test_a_set_is_verified_when_all_of_its_parts_are():
    whole, model, optimizer = make_set()
    (known,) = verify(whole, read_whole(model), read_whole(optimizer))
    assert (known.checkpoint.level, known.verified_full_at) == (Level.FULL, at(9))
    assert [part.level for part in known.checkpoint.parts] == [Level.FULL, Level.FULL]
    assert known.checkpoint.identities == whole.identities


def test_a_set_is_damaged_when_one_of_its_parts_is_and_the_reason_names_it():
    whole, model, optimizer = make_set()
    bad = read_whole(optimizer, state=CheckpointState.DAMAGED, reason="checksum of data/3")
    for found in ((read_whole(model), bad), (bad,)):
        (known,) = verify(whole, *found)
        assert (known.checkpoint.state, known.verified_full_at) == (CheckpointState.DAMAGED, None)
        assert known.checkpoint.reason == "step_5/optimizer.pt: checksum of data/3"


@pytest.mark.parametrize("change", ["missing", "shallow", "touched"])
def test_a_set_is_not_verified_while_one_of_its_parts_is_not(change):
    whole, model, optimizer = make_set()
    found = {"missing": (), "shallow": (optimizer,), "touched": (touch(read_whole(optimizer)),)}[change]
    assert verify(whole, read_whole(model), *found) == ()


def test_reading_its_bytes_does_not_complete_a_set_of_which_members_are_missing():
    whole, model, optimizer = make_set(state=CheckpointState.DAMAGED, reason="2 of 4 ranks are there")
    assert verify(whole, read_whole(model), read_whole(optimizer)) == ()


def test_a_file_dated_in_the_future_was_complete_by_now():
    (found,) = record(make_checkpoint(written=10_000), seen=5)
    assert found.completed_at == at(5)


def test_numbers_that_no_record_can_hold_are_left_out():
    wild = make_checkpoint(
        step=10**400, epoch=float("inf"), size_bytes=2**70, metrics={"loss": float("nan"), "acc": 0.5, "n": 10**400}
    )
    (found,) = record(wild)
    assert (found.checkpoint.step, found.checkpoint.epoch, found.checkpoint.metrics) == (None, None, {"acc": 0.5})
    assert found.checkpoint.size_bytes == recordable_numbers.LARGEST
    assert merge([found], make_scan(2, wild)).is_empty


def test_files_that_a_person_moves_out_of_a_complete_directory_are_remembered():
    known = record(make_pair("epoch_1/it_200.pt", "epoch_1/it_300.pt"))
    first, second = known[0].checkpoint.identities
    left = replace(known[0].checkpoint, files=("epoch_1/it_300.pt",), identities=(second,))
    moved = replace(make_checkpoint("good/epoch_1"), files=("epoch_1/it_200.pt",), identities=(first,))
    changes = merge(known, make_scan(2, left, moved))
    assert [(each.checkpoint.path.parent.name, each.renamed_at) for each in changes.appeared] == [("good", at(2))]
    assert [each.renamed_at for each in changes.changed] == [None]
