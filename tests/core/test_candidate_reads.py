"""Of several checkpoints that an attempt may have loaded, the one that it read between its start and its first save."""

import itertools

import pytest

from ckptd.core.model import Certainty, CheckpointRead, Resume, ResumeCandidate, ResumeReason
from ckptd.core.model.resume_json import decode_resume, encode_resume
from ckptd.core.runs import candidate_reads
from ckptd.present.resume_texts import describe_resume
from core.histories import RUN, at, saved
from core.resume_cases import EPOCHS, STATE, every, resume, said

# step 250 after 90 s where 100 steps take 60 s: it began at 100 or 150
TWO_FIT = [
    *every(1, "step", count=2, first=100, by=100),
    saved(2.5, name="step_150.pt", step=150, **STATE),
    saved(12.5, name="step_250.pt", step=250, **STATE),
]
AMBIGUOUS = (Certainty.UNKNOWN, ResumeReason.AMBIGUOUS, None)


def read(name, minute=None, checked=13.0):
    """A candidate that was read at that minute, or not until the scan at minute `checked`."""
    return CheckpointRead(f"{RUN.directory}/{name}", at(checked), None if minute is None else at(minute))


def test_the_only_candidate_that_was_read_after_the_start_was_probably_loaded():
    assert said(resume(*TWO_FIT)) == AMBIGUOUS
    for loaded, other in itertools.permutations(("step_100.pt", "step_150.pt")):
        found = resume(*TWO_FIT, reads=[read(loaded, 11.5), read(other)])
        assert said(found) == (Certainty.INFERRED, ResumeReason.ACCESS, loaded)
        assert len(found.candidates) == 2, "retention keeps every candidate"
        assert describe_resume(found, RUN.directory) == (
            f"{loaded}, probably: it was read 30 s after the start, and the other checkpoint that it may have loaded "
            "was not"
        )
        assert decode_resume(encode_resume(found)) == found


@pytest.mark.parametrize(
    "reads",
    [
        [read("step_100.pt", 11.5), read("step_150.pt", 11.6)],  # a backup reads all of them
        [read("step_100.pt"), read("step_150.pt")],
        [read("step_100.pt", 11.5)],  # nothing tells of the other one
        [read("step_100.pt", 11.0), read("step_150.pt")],  # not after the start
        [read("step_100.pt", 12.6), read("step_150.pt")],  # only after the first save
        [read("step_100.pt", 12.4, checked=12.4), read("step_150.pt", checked=12)],  # the other perhaps before that
        [read("step_200.pt", 11.5), read("step_100.pt"), read("step_150.pt")],  # which progress rules out
    ],
)
def test_other_reads_tell_nothing(reads):
    assert said(resume(*TWO_FIT, reads=reads)) == AMBIGUOUS


def test_before_its_first_save_nothing_is_said_and_the_reads_are_kept():
    reads = [read(f"epoch_{number}.pt", 11.5 if number == 2 else None) for number in range(1, 6)]
    found = resume(*EPOCHS, reads=reads)
    assert said(found) == (Certainty.UNKNOWN, ResumeReason.NOT_SAVED, None)
    assert found.reads == tuple(reads)


def test_what_progress_or_the_job_tells_is_not_overruled():
    reads = [read(f"epoch_{number}.pt", 11.5 if number == 2 else None) for number in range(1, 6)]
    own = saved(13, name="epoch_6.pt", epoch=6, **STATE)
    assert said(resume(*EPOCHS, own, reads=reads)) == (Certainty.INFERRED, ResumeReason.PROGRESS, "epoch_5.pt")
    declared = resume(*TWO_FIT, reads=[read("step_100.pt", 11.5), read("step_150.pt")], declared=f"{RUN.directory}/x")
    assert declared.certainty is Certainty.DECLARED


def test_a_content_that_was_replaced_at_the_same_path_stays_open():
    contents = [("last.pt", 3), ("last.pt", 4), ("other.pt", 5)]
    candidates = tuple(ResumeCandidate(f"{RUN.directory}/{name}", at(minute)) for name, minute in contents)
    reads = [read("last.pt", 11.5), read("other.pt")]
    for given, certainty in ((candidates, Certainty.UNKNOWN), (candidates[1:], Certainty.INFERRED)):
        found = Resume(certainty=Certainty.UNKNOWN, reason=ResumeReason.AMBIGUOUS, candidates=given)
        assert candidate_reads.choose(found, reads, at(11), at(12.5)).certainty is certainty


def test_checkpoints_without_progress_are_told_apart():
    before = [saved(minute, name=f"{name}.pt", **STATE) for minute, name in enumerate("abc", 1)]
    own = saved(12.5, name="d.pt", **STATE)
    reads = [read("a.pt"), read("b.pt", 11.5), read("c.pt")]
    assert said(resume(*before, own)) == (Certainty.UNKNOWN, ResumeReason.NO_PROGRESS, None)
    found = resume(*before, own, reads=reads)
    assert said(found) == (Certainty.INFERRED, ResumeReason.ACCESS, "b.pt")
    assert describe_resume(found, RUN.directory).endswith("and the other 2 that it may have loaded were not")


def test_only_open_questions_with_a_choice_are_asked():
    assert candidate_reads.list_asked(resume(*TWO_FIT)) == tuple(
        f"{RUN.directory}/{name}" for name in ("step_100.pt", "step_150.pt")
    )
    assert len(candidate_reads.list_asked(resume(*EPOCHS))) == 5
    assert candidate_reads.list_asked(resume(EPOCHS[0])) == ()
    assert candidate_reads.list_asked(resume(*EPOCHS, saved(13, name="epoch_6.pt", epoch=6, **STATE))) == ()


def test_reads_are_recorded_from_the_first_one_on_and_only_as_news():
    unread = [read("a.pt", checked=12), read("b.pt", checked=12)]
    assert candidate_reads.merge((), unread) == ()
    first = candidate_reads.merge((), [read("a.pt", 11.5, checked=12), read("b.pt", checked=12)])
    assert [each.read_at for each in first] == [at(11.5), None]
    assert candidate_reads.merge(first, [read("a.pt", 14, checked=15), read("b.pt", checked=15)]) == first
    more = candidate_reads.merge(first, [read("b.pt", 15, checked=16)])
    assert [each.read_at for each in more] == [at(11.5), at(15)]
