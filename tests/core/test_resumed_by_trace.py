"""What attempts resumed from, by what programs recorded of it, and which of several copies they loaded."""

from dataclasses import replace

import pytest

from ckptd.core.model import Certainty, ResumeReason
from ckptd.present.resume_texts import describe_resume
from core.histories import RUN, at, attempt, saved
from core.resume_cases import (
    EPOCHS,
    PROGRESS,
    SECOND,
    STATE,
    again,
    name_of,
    resume,
    said,
)


def part(minute, step, continued_count, name="state.cpt", **changes):
    """A GROMACS checkpoint, which counts how often mdrun was continued."""
    return saved(minute, name=name, step=step, continued_count=continued_count, **STATE, **changes)


def test_a_first_part_after_others_proves_a_start_from_nothing():
    """mdrun without -cpi; 960 steps would also fit one interval after state_prev.cpt at step 20."""
    before = [part(1, 20, 0, name="state_prev.cpt"), part(4, 1000, 0, gone=12)]
    found = resume(*before, part(12, 980, 0))
    assert said(found) == (Certainty.PROVEN, ResumeReason.PROGRAM, None)
    assert found.is_fresh
    assert describe_resume(found, RUN.directory) == "nothing, as the program's own files show"


def test_the_part_before_is_what_it_loaded():
    before = [part(2, 500, 0, name="old.cpt"), part(6, 1500, 1, gone=12)]
    found = resume(*before, part(12, 1600, 2), declared=f"{RUN.directory}/old.cpt")
    assert said(found) == (Certainty.PROVEN, ResumeReason.PROGRAM, "state.cpt")
    assert (found.saved_at, found.evidence) == (at(6), {"continued_count": 2})


def test_the_step_that_mdrun_counts_from_is_what_it_loaded():
    before = [part(n, 1000 * n, 0, name=f"state_step{1000 * n}.cpt") for n in (1, 2, 3, 4)]
    first = part(12, 3010, 1, name="state_step3010.cpt", continued_from_step=1000)
    found = resume(*before, first, declared=f"{RUN.directory}/state_step3000.cpt")
    assert said(found) == (Certainty.PROVEN, ResumeReason.PROGRAM, "state_step1000.cpt")
    assert found.evidence == {"continued_count": 1, "continued_from_step": 1000}
    backup = part(4.001, 1000, 0, name="state_prev.cpt")  # of what was restored from another disk
    restored = [part(1, 1000, 0), part(4, 2000, 0, gone=5), backup]
    assert name_of(resume(*restored, part(12, 1500, 1, continued_from_step=1000))) == "state.cpt"
    appending = part(12, 3010, 1, name="state_step3010.cpt", continued_from_step=7)  # of a simulation from step 7 on
    assert said(resume(*before, appending)) == (*PROGRESS, "state_step2000.cpt")


def test_of_a_file_before_and_after_its_renaming_the_one_that_stayed_was_loaded():
    """mdrun writes state_step425.cpt and renames it to state.cpt; a scan between sees the first name."""
    written = part(8, 425, 0, name="state_step425.cpt", gone=12.1), part(8, 425, 0, gone=13)
    found = resume(part(4, 200, 0, gone=8), *written, part(13, 675, 1, continued_from_step=425))
    assert said(found) == (Certainty.PROVEN, ResumeReason.PROGRAM, "state.cpt")


def test_mdrun_that_appends_probably_loaded_the_state_and_not_its_backup():
    """Its last save before was an early one, so that both are as far back as an interval may be."""
    before = [part(2 * n, 200 * n, 0, gone=2 * n + 2) for n in (1, 2, 3)]
    last = [part(8, 660, 0, gone=13), part(8.001, 600, 0, name="state_prev.cpt", gone=13)]
    found = resume(*before, *last, part(13, 820, 1))
    assert said(found) == (Certainty.INFERRED, ResumeReason.PROGRAM, "state.cpt")
    assert [each.path.rpartition("/")[2] for each in found.candidates] == ["state_prev.cpt", "state.cpt"]
    assert describe_resume(found, RUN.directory) == (
        "state.cpt, probably: the program's own files show that it continued, and the other checkpoints are backups"
    )


def test_of_several_of_the_part_before_progress_tells_which():
    before = [part(n, 1000 * n, 0, name=f"state_step{1000 * n}.cpt") for n in (1, 2, 3, 4)]
    found = resume(*before, part(12, 3010, 1, name="state_step3010.cpt"))
    assert said(found) == (*PROGRESS, "state_step2000.cpt")
    assert found.evidence["continued_count"] == 1


def test_a_save_that_ends_after_the_next_start_belongs_to_the_attempt_before():
    """mdrun saves when it is asked to end, and the next job has started by then."""
    attempts = attempt(0, 11), SECOND
    before = [part(2 * n, 100 * n, 0, gone=2 * n + 2) for n in range(1, 5)]
    late = part(11.02, 550, 0)
    found = resume(*before, part(10, 500, 0, gone=11.02), late, attempts=attempts)
    assert (found.certainty, found.reason) == (Certainty.UNKNOWN, ResumeReason.NOT_SAVED)
    assert at(11.02) in [each.saved_at for each in found.candidates]
    found = resume(*before, part(10, 500, 0, gone=11.02), late, part(13, 650, 1), attempts=attempts)
    assert said(found) == (*PROGRESS, "state.cpt")
    assert found.saved_at == at(11.02)


def test_an_early_save_that_is_not_too_far_is_the_attempts_own():
    attempts = attempt(0, 11), SECOND
    before = [part(2 * n, 100 * n, 0, gone=2 * n + 2) for n in range(1, 6)]
    assert resume(*before, part(11.2, 5, 0), attempts=attempts).is_fresh


def test_what_no_progress_tells_stays_one_of_the_part_before():
    before = [part(1, 1000, 0, name="a.cpt"), part(2, 9000, 1, name="b.cpt"), part(3, 9500, 1, name="c.cpt")]
    found = resume(*before, part(12, 90_000, 2, name="d.cpt"))
    assert said(found) == (Certainty.UNKNOWN, ResumeReason.PROGRAM, None)
    assert [each.path.rpartition("/")[2] for each in found.candidates] == ["b.cpt", "c.cpt"]
    assert not found.may_be_fresh
    assert describe_resume(found, RUN.directory).startswith("one of 2 checkpoints: the program's own files")


def put_back(record, gone=None):
    """An older checkpoint, with its time, where a later one has been until then."""
    return replace(record, first_seen_at=at(11.5), deleted_at=None if gone is None else at(gone))


def test_an_older_checkpoint_that_the_job_puts_back_before_it_loads_it_may_be_loaded():
    """The fast disk is empty after a requeue: the job copies the newest back that it has elsewhere."""
    older, newest = part(6, 675, 0, gone=8), part(8, 800, 0, gone=11.3)
    backups = [
        part(6.001, 525, 0, name="state_prev.cpt", gone=8),
        part(8.001, 675, 0, name="state_prev.cpt", gone=11.3),
    ]
    own = replace(part(13, 775, 1), checkpoint=replace(part(13, 775, 1).checkpoint, continued_from_step=675))
    found = resume(older, newest, *backups, put_back(older, gone=13), own)
    assert said(found) == (Certainty.PROVEN, ResumeReason.PROGRAM, "state.cpt")
    assert found.saved_at == at(6)


def test_of_a_state_and_the_backup_of_the_same_step_the_state_is_named():
    """The backup may be gone with the disk already; it was there at the last scan."""
    early = [part(2 * n, 100 * n, 0, gone=2 * n + 2) for n in (1, 2)]
    older, newest = part(6, 300, 0, gone=8), part(8, 400, 0, gone=11.3)
    backup = part(8.001, 300, 0, name="state_prev.cpt", gone=11.3)
    found = resume(*early, older, newest, backup, put_back(older, 13), part(13, 400, 1))
    assert (name_of(found), found.saved_at) == ("state.cpt", at(6))
    assert [path.rpartition("/")[2] for path in found.equals] == ["state_prev.cpt"]


@pytest.mark.parametrize(("epoch", "loaded"), [(4, 3), (6, 5)])
def test_what_was_put_back_is_told_from_what_it_replaced_by_progress(epoch, loaded):
    older, newest = (saved(2 * n, name="last.pt", epoch=n, **STATE) for n in (3, 5))
    before = [replace(older, deleted_at=at(10)), replace(newest, deleted_at=at(11.3))]
    found = resume(*EPOCHS[:2], *before, put_back(older), again(epoch))
    assert (found.certainty, name_of(found), found.saved_at) == (Certainty.INFERRED, "last.pt", at(2 * loaded))


def test_a_part_that_follows_none_on_record_proves_nothing():
    assert resume(part(6, 1500, 0), part(12, 1600, 5, name="new.cpt")).certainty is not Certainty.PROVEN


def image(minute, process, name="restart.sh", **changes):
    return saved(minute, name=name, computation=process, **STATE, **changes)


def test_dmtcp_images_of_the_same_process_prove_that_it_was_restarted():
    before = image(6, "1a2b-40000-65f0 1a2b-41000-65f1", gone=12)
    found = resume(before, image(12, "1a2b-40000-65f0"))
    assert said(found) == (Certainty.PROVEN, ResumeReason.PROGRAM, "restart.sh")
    assert resume(before, image(12, "1a2b-50000-65f9")).is_fresh


def test_a_backup_that_is_made_with_each_save_is_what_it_is_a_copy_of():
    """GROMACS copies state.cpt to state_prev.cpt: the younger file is the older state, and no save of its own."""
    short = 0.0001
    saves = [part(n, 1000 * n, 0, gone=n + 1) for n in (1, 2, 3)]
    backups = [part(n + short, 1000 * (n - 1), 0, name="state_prev.cpt", gone=n + 1) for n in (2, 3)]
    last = part(4, 4000, 0, gone=12)
    last_backup = part(4 + short, 3000, 0, name="state_prev.cpt", gone=12)
    own = [part(12, 5000, 1), part(12 + short, 4000, 0, name="state_prev.cpt")]
    found = resume(*saves, *backups, last, last_backup, *own)
    assert (name_of(found), found.saved_at, found.certainty) == ("state.cpt", at(4), Certainty.INFERRED)
    older = resume(*saves, *backups, last, last_backup, part(12, 3900, 1))
    assert (name_of(older), older.saved_at) == ("state_prev.cpt", at(3))
