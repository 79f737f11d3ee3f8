"""Which of all that is named counts for a run, and which runs share a directory."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import retention
from ckptd.core.discovery.path_mentions import Mention, describe
from ckptd.core.model import FileIdentity, JobState, RunKey, SeenLink
from ckptd.core.retention import References, ReferenceSources, SeenLinks
from ckptd.core.retention.shared_directories import SharedDirectories, is_writing
from core.retention_facts import DIRECTORY, NOW, UID, attempt, hours, names, policy_of, removed, run_of, saved, series
from support.queue_facts import make_job

GRACE = timedelta(minutes=30)
HISTORY = run_of(*series(4))
STEPS = ["step_100.pt", "step_200.pt", "step_300.pt", "step_400.pt"]


def linked(*links, seen_at=NOW):
    return ReferenceSources(links={UID: [SeenLinks(HISTORY.key, seen_at, links)]})


def queued(*mentions, begun=None, uid=UID, user="alice", work_dir="/home/alice", **changes):
    """What a job names that waits, or that began so many hours ago."""
    job = make_job(7, JobState.PENDING if begun is None else JobState.RUNNING, uid=uid, user=user)
    found = describe(job, None, reads_scripts=False)
    started_at = None if begun is None else NOW - hours(begun)
    return replace(found, mentions=mentions, started_at=started_at, work_dir=work_dir, **changes)


def kept(named, history=HISTORY, **how):
    """Return what of a run's checkpoints is named."""
    found = References(named, NOW, **how).find(history, GRACE)
    paths = [[str(each.checkpoint.path)] for each in history.checkpoints]
    hit = {index for index, _ in retention.references.match(found, paths)}
    return sorted(history.checkpoints[index].checkpoint.path.name for index in hit)


SURE = Mention("comment", path=f"{DIRECTORY}/step_200.pt")
TAIL = Mention("script", tail="step_200.pt", is_sure=False, is_literal=False)
OPAQUE = Mention("script", path="/scratch", is_sure=False, is_literal=False)
BELOW = Mention("comment", path=f"{DIRECTORY}/old")


@pytest.mark.parametrize("begun", [None, 0.2, 10])
@pytest.mark.parametrize("mention", [SURE, TAIL])
def test_what_a_job_names_stays_as_long_as_it_is_in_the_queue(begun, mention):
    assert kept(ReferenceSources(jobs=[queued(mention, begun=begun)])) == ["step_200.pt"]


@pytest.mark.parametrize(("begun", "is_kept"), [(None, True), (0.2, True), (10, False)])
def test_what_names_all_of_a_run_counts_until_its_job_has_loaded(begun, is_kept):
    assert kept(ReferenceSources(jobs=[queued(OPAQUE, begun=begun)])) == (STEPS if is_kept else [])
    nameless = Mention("script", tail="step_200.pt/model.pt", is_sure=False)
    sharded = run_of(*(saved(f"{name}/model.pt", age) for age, name in enumerate(STEPS, 2)))
    assert kept(ReferenceSources(jobs=[queued(nameless, begun=begun)]), sharded) == ["model.pt"]
    for mention in (replace_tail("model.pt"), replace_tail("alice/ckpts")):
        assert bool(kept(ReferenceSources(jobs=[queued(mention, begun=begun)]), sharded)) is is_kept


def replace_tail(tail):
    return TAIL._replace(tail=tail)


@pytest.mark.parametrize(("begun", "count"), [(None, 2), (10, 0)])
def test_a_directory_above_several_counts_until_its_job_has_loaded(begun, count):
    history = run_of(*series(4), *(saved(f"old/step_{n}.pt", 30, step=n) for n in (1, 2)))
    assert len(kept(ReferenceSources(jobs=[queued(BELOW, begun=begun)]), history)) == count


def test_a_pattern_in_the_runs_directory_counts_as_long_as_the_job_that_reads_there_is_in_the_queue():
    pattern = OPAQUE._replace(path=DIRECTORY)
    for begun in (None, 0.2, 10):
        assert kept(ReferenceSources(jobs=[queued(pattern, begun=begun)])) == STEPS
    writer = replace(queued(pattern, begun=10), cluster="c", job_id=1)
    assert kept(ReferenceSources(jobs=[writer])) == []
    evaluation = make_job(7, JobState.RUNNING, uid=UID, comment=f"eval all of {DIRECTORY}/step_*.pt")
    found = replace(describe(evaluation, None, reads_scripts=False), started_at=NOW - hours(10))
    assert kept(ReferenceSources(jobs=[found])) == STEPS


def test_where_a_job_saves_counts_only_where_it_is_a_checkpoint():
    place = SURE._replace(is_place=True)
    assert kept(ReferenceSources(jobs=[queued(place)])) == ["step_200.pt"]
    assert kept(ReferenceSources(jobs=[queued(place._replace(path="/scratch"))])) == []


def test_a_job_that_may_mean_anything_keeps_its_own_run_wherever_it_works():
    job = queued(OPAQUE._replace(path="/home/alice"))
    assert kept(ReferenceSources(jobs=[job])) == []
    assert kept(ReferenceSources(jobs=[job], directories={7: DIRECTORY})) == STEPS


def test_a_path_that_leads_elsewhere_means_what_is_there():
    alias = SURE._replace(path="/alias/current/step_300.pt")
    assert kept(ReferenceSources(jobs=[queued(alias)])) == []
    found = queued(alias, resolved={alias.path: f"{DIRECTORY}/step_300.pt"})
    assert kept(ReferenceSources(jobs=[found])) == ["step_300.pt"]


def test_until_somebody_has_looked_a_path_means_all_that_ends_like_it():
    alias = SURE._replace(path="/alias/ckpts/step_300.pt")
    assert kept(ReferenceSources(jobs=[queued(alias)])) == ["step_300.pt"]
    assert kept(ReferenceSources(jobs=[queued(alias, resolved={alias.path: None})])) == []


def test_a_relative_path_with_nothing_there_means_all_that_ends_like_it():
    relative = SURE._replace(path="/home/alice/step_300.pt", tail="step_300.pt")
    assert kept(ReferenceSources(jobs=[queued(relative, resolved={relative.path: None})])) == ["step_300.pt"]
    found = queued(relative, resolved={relative.path: relative.path})
    assert kept(ReferenceSources(jobs=[found])) == []


@pytest.mark.parametrize("begun", [None, 10])
def test_a_name_without_its_suffix_means_the_file_to_whose_name_programs_add_it(begun):
    for mention in (
        SURE._replace(path=f"{DIRECTORY}/step_200"),
        SURE._replace(path="/home/alice/ckpts/step_200", tail="ckpts/step_200"),
    ):
        assert kept(ReferenceSources(jobs=[queued(mention, begun=begun)])) == ["step_200.pt"]
        there = queued(mention, begun=begun, resolved={mention.path: "/elsewhere"})
        assert kept(ReferenceSources(jobs=[there])) == []
    assert kept(ReferenceSources(jobs=[queued(SURE._replace(path=f"{DIRECTORY}/step_20"))])) == []
    others = queued(SURE._replace(path=f"{DIRECTORY}/step_200"), uid=UID + 1, user="bob")
    assert kept(ReferenceSources(jobs=[others])) == []


def test_what_is_still_to_be_read_keeps_everything_but_what_may_come_of_a_closer_look_ignores_it():
    for named in (ReferenceSources(doubt="not read yet"), ReferenceSources(jobs=[queued(is_script_awaited=True)])):
        assert kept(named) == STEPS
        assert kept(named, is_hopeful=True) == []


def test_another_users_job_counts_only_by_an_exact_path_written_out():
    bob = {"uid": UID + 1, "user": "bob"}
    assert kept(ReferenceSources(jobs=[queued(SURE, **bob)])) == ["step_200.pt"]
    for mention in (TAIL, OPAQUE, SURE._replace(is_literal=False), SURE._replace(path=DIRECTORY), BELOW):
        history = run_of(*series(4), *(saved(f"old/step_{n}.pt", 30, step=n) for n in (1, 2)))
        assert kept(ReferenceSources(jobs=[queued(mention, **bob)]), history) == []


def test_a_link_counts_by_its_text_and_by_what_it_leads_to():
    link = SeenLink("/home/alice/model.pt", f"{DIRECTORY}/step_100.pt", f"{DIRECTORY}/step_300.pt")
    assert kept(linked(link)) == ["step_100.pt", "step_300.pt"]
    (first, _) = References(linked(link), NOW).find(HISTORY, GRACE)
    assert first.reason == "/home/alice/model.pt is a link to it"
    assert kept(linked(link._replace(target="/scratch/alice", real=None))) == []
    assert kept(linked(link._replace(target=""))) == STEPS


def test_a_link_by_another_mount_is_known_by_device_and_inode():
    identity = FileIdentity(5, 77, 1, 1)
    record = saved("step_500.pt", 1, step=500)
    record = replace(record, checkpoint=replace(record.checkpoint, identities=(identity,)))
    history = run_of(*series(4), record)
    link = SeenLink("/x/best.pt", "/alias/step_500.pt", "/alias/step_500.pt", device=5, inode=77)
    assert kept(linked(link), history) == ["step_500.pt"]
    assert kept(linked(link._replace(device=6)), history) == []
    sharded = replace(record, checkpoint=replace(record.checkpoint, files=("step_500.pt/a/rank0.pt",)))
    into = link._replace(real="/alias/step_500.pt", inside="a/rank0.pt")
    assert kept(linked(into), run_of(*series(4), sharded)) == ["step_500.pt"]


def test_links_that_were_seen_long_ago_may_be_gone():
    link = SeenLink("/x/best.pt", f"{DIRECTORY}/step_100.pt")
    old = linked(link, seen_at=NOW - timedelta(days=1))
    assert kept(old) == ["step_100.pt"]
    assert kept(old, is_hopeful=True) == []
    assert kept(linked(link), is_hopeful=True) == ["step_100.pt"]


def test_thousands_of_links_and_jobs_of_one_owner_of_hundreds_of_runs_are_compared_in_a_bounded_time():
    links = tuple(SeenLink(f"/h/l{n}", f"/scratch/r{n % 300}/step_{n}.pt") for n in range(20_000))
    jobs = [replace(queued(TAIL._replace(tail=f"x{n}/y.pt"), SURE), job_id=n) for n in range(5000)]
    references = References(ReferenceSources(links={UID: [SeenLinks(HISTORY.key, NOW, links)]}, jobs=jobs), NOW)
    began = time.process_time()
    for number in range(300):
        key = RunKey("c", UID, f"/scratch/r{number}")
        references.find(replace(HISTORY, key=key), GRACE)
    assert time.process_time() - began < 20


def test_what_is_named_stays_and_the_plan_says_why():
    found = References(linked(SeenLink(f"{DIRECTORY}/best.pt", f"{DIRECTORY}/step_100.pt")), NOW).find(HISTORY, GRACE)
    assert removed(HISTORY) == {"step_100.pt", "step_200.pt", "step_300.pt"}
    assert removed(HISTORY, references=found) == {"step_200.pt", "step_300.pt"}
    made = retention.plan([(HISTORY, policy_of())], NOW, references={HISTORY.key: found})
    (why,) = (each.reasons for each in made.runs[0].keep if each.path.endswith("/step_100.pt"))
    assert why == ("best.pt is a link to it",)


def strangers(**changes):
    other = run_of(*series(4, by=None), **changes)
    return replace(other, key=RunKey("c", UID + 1, DIRECTORY))


def test_a_run_of_another_user_shares_a_directory_only_where_a_job_of_it_was_seen_writing_there():
    named = strangers()
    assert not is_writing(named)
    made = retention.plan([(HISTORY, policy_of()), (named, policy_of())], NOW)
    assert names(made.runs[0].remove) == {"step_100.pt", "step_200.pt", "step_300.pt"}
    wrote = saved("theirs.pt", 1, owner_uids=frozenset({UID + 1}))
    writing = replace(named, checkpoints=(*named.checkpoints, wrote))
    assert is_writing(writing)
    made = retention.plan([(HISTORY, policy_of()), (writing, policy_of())], NOW)
    assert made.runs[0].skipped == "another run has the same directory"
    left = replace(wrote, deleted_at=NOW)
    assert not is_writing(replace(named, checkpoints=(left,)))
    assert is_writing(replace(named, checkpoints=(left,), attempts=(attempt(),)))


def test_a_run_inside_another_counts_by_the_same_rule():
    inside = RunKey("c", UID + 1, f"{DIRECTORY}/step_100.pt")
    own = RunKey("c", UID, f"{DIRECTORY}/b")
    runs = {HISTORY.key: True, inside: False, own: False}
    assert SharedDirectories(runs).list_nested(HISTORY.key) == (own.directory,)
    assert set(SharedDirectories({**runs, inside: True}).list_nested(HISTORY.key)) == {own.directory, inside.directory}
    assert not SharedDirectories(runs).is_shared(HISTORY.key)
    assert SharedDirectories({**runs, RunKey("d", UID, DIRECTORY): False}).is_shared(HISTORY.key)
