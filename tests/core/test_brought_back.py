"""What a scan records of checkpoints whose files have come back."""

from dataclasses import replace

from ckptd.core.runs.added_files import MAX_LINKS
from core.scan_records import credit_of, make_attempt, record
from support.queue_facts import at, make_checkpoint, make_scan, merge


def test_files_that_come_back_as_they_were_are_the_same_checkpoint_with_its_owner():
    attempt = make_attempt()
    scan = make_scan(2, make_checkpoint(written=1))
    (known,) = merge((), scan, [attempt], looked=0).appeared
    (gone,) = merge([known], make_scan(3)).gone
    changes = merge([gone], make_scan(4, *scan.checkpoints), [attempt], looked=3)
    (back,) = changes.changed
    assert (back.deleted_at, back.attempt, back.first_seen_at) == (None, credit_of(attempt), at(2))
    assert changes.appeared == ()


def test_what_comes_back_while_others_were_there_was_moved_by_a_person():
    taken, other = make_checkpoint("a", written=0), make_checkpoint("b", written=1)
    there = record(taken, other)
    (gone,) = merge(there, make_scan(3, other)).gone
    known = [gone, *there[1:]]
    (back,) = merge(known, make_scan(4, taken, other), looked=3).changed
    assert (back.checkpoint.path.name, back.deleted_at, back.renamed_at) == ("a", None, at(4))


def test_what_a_file_system_hid_from_one_listing_was_moved_by_nobody():
    """A rename away and back sets the change time of the file twice; of files in a renamed directory, of none.

    POSIX leaves open whether a file system does that.
    """
    taken, other = make_checkpoint("a", written=0), make_checkpoint("b", written=1)
    in_directory = replace(taken, files=("a/state.pt",))
    for hidden, changed_ns, filesystem_type, renamed_at in (
        (taken, 7, "ext4", None),
        (taken, 7, "lustre", None),
        (taken, 7, "gpfs", at(4)),
        (taken, 7, None, at(4)),
        (taken, 8, "ext4", at(4)),
        (taken, 0, "ext4", at(4)),
        (in_directory, 7, "ext4", at(4)),
    ):
        hidden = replace(hidden, identities=[each._replace(changed_ns=7) for each in hidden.identities])  # noqa: PLW2901
        known = record(hidden, other)
        (gone,) = merge(known, make_scan(3, other)).gone
        back = replace(hidden, identities=[each._replace(changed_ns=changed_ns) for each in hidden.identities])
        (changed,) = merge(
            [gone, known[1]], make_scan(4, back, other, filesystem_type=filesystem_type), looked=3
        ).changed
        told = (changed.deleted_at, changed.renamed_at)
        assert told == (None, renamed_at), (hidden.files, changed_ns, filesystem_type)


def test_what_a_person_moved_is_not_taken_for_one_of_the_trash_by_a_clock_that_was_set_back():
    taken, other = make_checkpoint("a", written=0), make_checkpoint("b", written=1)
    taken, other = record(taken, other, seen=9)
    changes = merge(
        [replace(taken, deleted_at=at(3)), other], make_scan(4, taken.checkpoint, other.checkpoint), looked=3
    )
    (back,) = changes.changed
    assert back.renamed_at == at(9)
    assert not back.was_in_trash


def test_what_comes_back_beside_later_ones_was_moved_by_a_person():
    (known,) = record(make_checkpoint("a", written=0))
    later = record(make_checkpoint("b", written=4), seen=5)
    gone = replace(known, deleted_at=at(3))
    scan = make_scan(6, known.checkpoint, later[0].checkpoint)
    assert [each.renamed_at for each in merge([gone, *later], scan).changed] == [at(6)]
    unmounted = make_scan(6, known.checkpoint)  # then what was saved meanwhile is gone
    assert [each.renamed_at for each in merge([gone, *later], unmounted).changed] == [None]


def test_what_comes_back_with_all_others_was_moved_by_nobody():
    both = make_checkpoint("a", written=0), make_checkpoint("b", written=1)
    gone = merge(record(*both), make_scan(3)).gone
    back = merge(gone, make_scan(4, *both), looked=3).changed
    assert [(each.deleted_at, each.renamed_at) for each in back] == [(None, None)] * 2


def test_what_comes_back_beside_links_to_its_files_was_moved_by_a_person_if_there_are_too_many_to_look_at():
    taken = make_checkpoint("a", written=0)
    (gone,) = [replace(known, deleted_at=at(3)) for known in record(taken)]
    for count, moved_at in ((MAX_LINKS, None), (MAX_LINKS + 1, at(4))):
        links = [replace(make_checkpoint(f"link_{number}"), identities=taken.identities) for number in range(count)]
        changes = merge([gone, *record(*links)], make_scan(4, taken, *links))
        assert [each.renamed_at for each in changes.changed if each.checkpoint.path.name == "a"] == [moved_at]
