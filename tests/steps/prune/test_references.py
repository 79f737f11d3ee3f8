"""What links, jobs in the queue and users' own files name is not pruned, and nobody else's is kept by it for long."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.discovery.path_mentions import describe
from ckptd.core.model import JobState, Unknown
from ckptd.steps import scan
from ckptd.steps.prune import planning
from support.prune_facts import CLUSTER, EPOCHS, UID, own, workshop

KEPT = EPOCHS[-2:]  # what the policy of the workshop keeps
PENDING = {"state": JobState.PENDING, "started_at": None, "comment": ""}


@pytest.fixture
def shop():
    """A run of six saves whose job has ended an hour and a half ago; two of six may stay."""
    with workshop() as shop:
        scripts = {}
        shop.scripts = scripts
        shop.queue.read_batch_script = lambda job: scripts.get(job.job_id, Unknown(what="script", reason="none"))
        shop.start_job()
        shop.train(range(1, 7), saves_per_look=6)
        shop.end_jobs()
        shop.wait(90)
        yield shop


def link(shop, path, target):
    path.symlink_to(target)
    os.chown(path, UID, -1, follow_symlinks=False)


def submit(shop, job_id=2, *, work_dir=None, **changes):
    """Let a job wait in the queue, which works somewhere else."""
    place = work_dir or shop.root / f"work{job_id}"
    place.mkdir(exist_ok=True)
    os.chown(place, changes.get("uid", UID), -1)
    job = shop.make_job(job_id, **{**PENDING, "work_dir": PurePosixPath(place), **changes})
    shop.queue.jobs = (*shop.queue.jobs, job)


def reasons(shop, name):
    scan.scan_again(shop.parts, shop.state, [shop.run], frozenset(), shop.now)
    facts = planning.read_facts(shop.store, CLUSTER, shop.site, [shop.run])
    (run,) = planning.plan(facts, shop.now).runs
    return next(each.reasons for each in run.decisions if each.path.endswith(f"/{name}"))


def kept(shop):
    """Prune, and return what stayed beside what the policy keeps."""
    shop.act()
    return sorted({*shop.names()} & {*EPOCHS} - {*KEPT})


def test_what_links_lead_to_stays_by_a_name_by_a_chain_of_links_and_from_the_working_directory_of_a_job(shop):
    link(shop, shop.directory / "best.pt", "epoch_3.npz")
    link(shop, shop.directory / "last.pt", str(shop.directory / "former.pt"))
    link(shop, shop.directory / "former.pt", str(shop.root / "home/../home/ckpts/epoch_2.npz"))
    link(shop, shop.directory.parent / "for_paper.pt", "ckpts/epoch_1.npz")
    assert kept(shop) == EPOCHS[:3]
    assert "best.pt is a link to it" in reasons(shop, "epoch_3.npz")
    assert "last.pt is a link to it" in reasons(shop, "epoch_2.npz")
    assert f"{shop.directory.parent}/for_paper.pt is a link to it" in reasons(shop, "epoch_1.npz")


def test_what_a_link_among_the_checkpoints_of_another_run_leads_to_stays(shop):
    other = shop.root / "other"
    (other / "ckpts").mkdir(parents=True)
    for path in (other, other / "ckpts"):
        own(path)
    link(shop, other / "ckpts" / "start.pt", str(shop.directory / "epoch_2.npz"))
    shop.start_job(3, work_dir=PurePosixPath(other))
    shop.wait(5)
    shop.look()
    assert kept(shop) == ["epoch_2.npz"]


def test_by_another_name_of_its_directory_what_a_link_and_a_job_lead_to_stays(shop):
    link(shop, shop.root / "scratch", str(shop.directory))
    link(shop, shop.directory.parent / "model.pt", str(shop.root / "scratch/epoch_3.npz"))
    submit(shop, command=f"/home/alice/train.sh --resume {shop.root}/scratch/epoch_2.npz")
    assert kept(shop) == ["epoch_2.npz", "epoch_3.npz"]
    assert f"{shop.directory.parent}/model.pt is a link to it" in reasons(shop, "epoch_3.npz")
    assert any("job 2 " in reason for reason in reasons(shop, "epoch_2.npz"))


def test_a_link_to_the_directory_of_all_checkpoints_and_one_of_somebody_else_keep_nothing(shop):
    link(shop, shop.directory.parent / "results", "ckpts")
    if os.geteuid() == 0:  # who alone can give a link to somebody else
        (shop.directory / "mine.pt").symlink_to("epoch_3.npz")
        os.chown(shop.directory / "mine.pt", UID + 1, -1, follow_symlinks=False)
    assert kept(shop) == []


def test_a_link_that_is_gone_keeps_nothing_once_it_was_looked_for_again(shop):
    link(shop, shop.directory.parent / "best.pt", "ckpts/epoch_3.npz")
    assert kept(shop) == ["epoch_3.npz"]
    (shop.directory.parent / "best.pt").unlink()
    shop.wait(7 * 60)
    assert kept(shop) == []


NAMED = {  # in other words, a different checkpoint each
    "epoch_1.npz": {"comment": "resume_from={run}/epoch_1.npz"},
    "epoch_2.npz": {"command": "/home/alice/train.sh --resume {run}/epoch_2.npz"},
    "epoch_3.npz": {"command": "/home/alice/train.sh --resume ../home/ckpts/epoch_3.npz"},
    "epoch_4.npz": {"name": "{run}/epoch_4.npz"},
}
BARE = {"epoch_3.npz": {"name": "again-epoch_3.npz"}}


@pytest.mark.parametrize("said", [NAMED, BARE], ids=["by its path", "by its name alone"])
def test_what_a_pending_job_of_its_owner_names_stays_until_the_job_is_gone(shop, said):
    for job_id, words in enumerate(said.values(), 2):
        submit(shop, job_id, **{key: text.format(run=shop.directory) for key, text in words.items()})
    assert kept(shop) == list(said)
    for job_id, name in enumerate(said, 2):
        assert naming(shop, name, said) == {job_id}
    shop.end_jobs()
    shop.wait(90)
    assert kept(shop) == []


def naming(shop, name, said):
    """Return which of the jobs that name something are given as reasons why a checkpoint stays."""
    found = reasons(shop, name)
    jobs = range(2, 2 + len(said))
    return {job_id for job_id in jobs for reason in found if f"job {job_id} " in f"{reason} "}


SCRIPTS = {  # in other words, a different checkpoint each
    "epoch_1.npz": "#!/bin/sh\npython train.py --resume {run}/epoch_1.npz\n",
    "epoch_2.npz": "#!/bin/sh\nCKPT={run}\npython train.py --load $CKPT/epoch_2.npz\n",
    "epoch_3.npz": "#!/bin/sh\ncd {run}\npython train.py --resume epoch_3.npz\n",
    "epoch_4.npz": "#!/bin/sh\npython train.py --resume $CKPTS/epoch_4.npz\n",  # a variable that nobody knows
}
HOME = {"epoch_3.npz": "#!/bin/sh\npython train.py --resume ~nobody/ckpts/epoch_3.npz\n"}


@pytest.mark.parametrize("scripts", [SCRIPTS, HOME], ids=["by its path", "in a home"])
def test_what_the_script_of_a_pending_job_names_stays_where_scripts_may_be_read(shop, scripts):
    shop.parts = replace(shop.parts, reads_batch_scripts=True)
    for job_id, text in enumerate(scripts.values(), 2):
        shop.scripts[job_id] = text.format(run=shop.directory)
        submit(shop, job_id)
    assert kept(shop) == list(scripts)
    for job_id, name in enumerate(scripts, 2):
        assert naming(shop, name, scripts) == {job_id}
        assert any("its script" in reason for reason in reasons(shop, name))


def test_no_script_is_read_where_scripts_may_not_be_read(shop):
    shop.scripts[2] = SCRIPTS["epoch_1.npz"].format(run=shop.directory)
    submit(shop)
    assert kept(shop) == []


def test_a_script_that_slurm_does_not_give_keeps_all_until_it_was_asked_for_often_enough(shop):
    shop.parts = replace(shop.parts, reads_batch_scripts=True)
    submit(shop)
    assert kept(shop) == EPOCHS[:4]
    assert "the script of job 2 has not been read yet" in reasons(shop, "epoch_3.npz")
    shop.wait(5)
    assert kept(shop) == EPOCHS[:4]
    shop.wait(5)
    assert kept(shop) == []


OPAQUE = {"command": "/home/alice/train.sh --resume $X"}


def test_a_path_that_nobody_can_fill_in_keeps_all_that_is_near_the_job_while_it_waits(shop):
    submit(shop, **OPAQUE, work_dir=shop.directory.parent)
    assert kept(shop) == EPOCHS[:4]
    assert any("cannot be told for sure" in reason for reason in reasons(shop, "epoch_3.npz"))


def test_a_path_that_nobody_can_fill_in_keeps_nothing_elsewhere(shop):
    submit(shop, **OPAQUE)
    assert kept(shop) == []


def test_a_run_is_not_kept_whole_by_the_words_of_its_own_running_job():
    with workshop() as shop:
        shop.start_job(command=f"/home/alice/train.sh --resume $X --out {shop.directory} {shop.directory}/*.npz")
        shop.train(range(1, 7), saves_per_look=6)
        shop.wait(90)
        assert kept(shop) == []


def test_what_a_running_job_of_its_owner_names_by_its_path_stays():
    with workshop() as shop:
        shop.start_job(command=f"/home/alice/train.sh --resume {shop.directory}/epoch_1.npz")
        shop.train(range(1, 7), saves_per_look=6)
        shop.wait(90)
        assert kept(shop) == ["epoch_1.npz"]


STRANGER = {"uid": UID + 1, "user": "bob"}
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@only_root
def test_other_users_jobs_keep_checkpoints_by_their_exact_paths_while_they_are_queued(shop):
    texts = {"comment": "{}/epoch_1.npz", "command": "x --resume {}/epoch_2.npz", "name": "{}/epoch_3.npz"}
    for job_id, (field, text) in enumerate(texts.items(), 2):
        submit(shop, job_id, **STRANGER, **{field: text.format(shop.directory)})
    assert kept(shop) == EPOCHS[:3]
    for job_id, name in enumerate(EPOCHS[:3], 2):
        assert any(f"job {job_id} of bob" in reason for reason in reasons(shop, name))
        assert naming(shop, name, texts) == {job_id}
    shop.end_jobs()
    shop.wait(90)
    assert kept(shop) == []


INEXACT = (
    "ckpt={run}",
    "{run}",
    "--resume {run}/*.npz",
    "--resume $X/epoch_3.npz",
    "epoch_3.npz",
    "--resume $X",
    "A={run};--resume $A/epoch_3.npz",
)


@only_root
def test_other_users_jobs_keep_nothing_by_less_than_an_exact_path(shop):
    for job_id, words in enumerate(INEXACT, 2):
        submit(shop, job_id, **{**STRANGER, "comment": words.format(run=shop.directory)})
    assert kept(shop) == []


@pytest.mark.parametrize("uid", [UID, 60_002])
def test_a_job_that_waits_on_another_cluster_keeps_a_checkpoint_by_its_exact_path_alone(shop, uid):
    exact, vague = shop.directory / "epoch_2.npz", "ckpts/epoch_3.npz"
    for number, comment in enumerate((f"resume={exact}", f"resume={vague}", f"resume={shop.directory}"), start=1):
        job = shop.make_job(number, **{**PENDING, "cluster": "beta", "uid": uid, "comment": comment})
        job = replace(job, work_dir=PurePosixPath("/elsewhere"))
        shop.store.mentions.record("beta", [describe(job, None, reads_scripts=True)])
    assert kept(shop) == ["epoch_2.npz"]
    assert reasons(shop, "epoch_2.npz") == ("job 1 of alice on the cluster beta names it in its comment",)
    shop.store.mentions.record("beta", [], [1, 2, 3])
    assert kept(shop) == []


@only_root
def test_another_users_job_keeps_no_more_than_a_few_checkpoints_of_a_run(shop, monkeypatch):
    monkeypatch.setattr("ckptd.core.retention.reference_limits.MAX_OF_OTHERS", 2)
    paths = " ".join(f"{shop.directory}/{name}" for name in EPOCHS)
    submit(shop, 2, **STRANGER, command=f"x {paths}")
    submit(shop, 3, **STRANGER, command=f"x {paths}")
    assert kept(shop) == EPOCHS[:2]


@only_root
@pytest.mark.parametrize(
    ("place", "when"),
    [
        ("ckpts", "while it runs"),
        ("ckpts", "when it starts again and again"),
        ("ckpts", "after it is gone"),
        ("ckpts/epoch_dir", "while it runs"),
    ],
)
def test_a_job_whose_comment_names_anothers_world_writable_directory_does_not_freeze_its_retention(shop, place, when):
    shop.directory.chmod(0o777)
    (shop.directory / "epoch_dir").mkdir()
    (shop.directory / "epoch_dir").chmod(0o777)
    work_dir = shop.root / "bob"
    work_dir.mkdir()
    os.chown(work_dir, STRANGER["uid"], -1)
    facts = {**STRANGER, "work_dir": PurePosixPath(work_dir), "comment": f"ckpt={shop.directory.parent / place}"}
    shop.start_job(7, **facts)
    for job_id in (8, 9):
        shop.wait(5)
        if when == "when it starts again and again":
            shop.queue.jobs = ()
            shop.start_job(job_id, **facts)
        shop.look()
    if when == "after it is gone":
        shop.end_jobs()
    keys = {key for key in shop.store.runs.list_keys() if key.uid == STRANGER["uid"]}
    assert {key.directory for key in keys} == {str(shop.directory.parent / place)}
    assert kept(shop) == []


@only_root
def test_a_run_of_another_user_that_was_seen_writing_there_is_still_respected(shop):
    shop.directory.chmod(0o777)
    work_dir = shop.root / "bob"
    work_dir.mkdir()
    os.chown(work_dir, STRANGER["uid"], -1)
    shop.start_job(7, **STRANGER, work_dir=PurePosixPath(work_dir), comment=f"ckpt={shop.directory}")
    shop.wait(5)
    shop.look()
    path = shop.save("epoch_7.npz", epoch=7)
    os.chown(path, STRANGER["uid"], -1)
    for _ in range(3):
        shop.wait(5)
        shop.look()
    shop.wait(90)
    shop.act()
    assert set(EPOCHS) <= set(shop.names())


RESUMED = {
    '"ckpts/epoch_3.npz"': ["epoch_3.npz"],
    '["/nowhere", "ckpts/epoch_2.npz", "{run}/epoch_3.npz"]': ["epoch_2.npz", "epoch_3.npz"],
}


@pytest.mark.parametrize("resumed", RESUMED)
def test_what_resume_from_names_in_a_users_own_file_stays_while_the_file_says_so(shop, resumed):
    file = shop.directory.parent / ".ckptd.toml"
    file.write_text(f"resume_from = {resumed.format(run=shop.directory)}\n")
    own(file)
    assert kept(shop) == RESUMED[resumed]
    for name in RESUMED[resumed]:
        assert any("resume_from" in reason for reason in reasons(shop, name))
    file.unlink()
    shop.wait(7 * 60)
    assert kept(shop) == []


def test_what_resume_from_names_where_a_job_waits_stays(shop):
    place = shop.root / "work2"
    place.mkdir()
    (place / ".ckptd.toml").write_text(f'resume_from = "{shop.directory}/epoch_2.npz"\n')
    own(place / ".ckptd.toml")
    submit(shop, work_dir=place)
    assert kept(shop) == ["epoch_2.npz"]


def test_a_users_own_file_that_cannot_be_read_keeps_everything(shop):
    file = shop.directory.parent / ".ckptd.toml"
    file.write_text("resume_from = \n")
    own(file)
    assert kept(shop) == EPOCHS[:4]
    assert any("cannot be read" in reason for reason in reasons(shop, "epoch_3.npz"))


def test_while_it_is_not_known_what_jobs_name_everything_stays(shop):
    """So it is right after the upgrade of a database that another version has kept up to date."""
    shop.store.clusters.record_poll(CLUSTER, shop.now + timedelta(seconds=1))
    assert any("has not been read yet" in reason for reason in reasons(shop, "epoch_3.npz"))
    shop.look()
    shop.wait(1)
    assert kept(shop) == []


def test_names_with_line_breaks_and_bytes_that_are_no_text_are_ordinary_names(shop):
    path = shop.directory / "epoch_3.npz"
    strange = shop.directory.parent / os.fsdecode(b"a\nb\xff.pt")
    link(shop, strange, str(path))
    submit(shop, comment=f"{shop.directory}/epoch_1.npz\n\udcff\x1f")
    assert kept(shop) == ["epoch_1.npz", "epoch_3.npz"]


def test_keep_counts_that_an_owner_writes_after_the_job_was_found_and_until_it_is_removed(shop):
    file = shop.directory.parent / ".ckptd.toml"
    file.write_text("keep = { last = 4 }\n")
    own(file)
    assert kept(shop) == ["epoch_3.npz", "epoch_4.npz"]
    assert "last 4 (user setting)" in reasons(shop, "epoch_3.npz")
    file.write_text("keep = { last = 3 }\n")
    shop.wait(60)
    shop.act()  # reads it again
    assert kept(shop) == ["epoch_4.npz"]
    file.unlink()
    shop.wait(60)
    shop.act()
    assert kept(shop) == []
