"""A queued job that names no path takes no memory for one, and links where it works keep what they lead to."""

import os
from pathlib import PurePosixPath

from ckptd.core.model import JobState
from ckptd.steps.snapshots import QueuedMentions
from support.prune_facts import UID, own, workshop


def test_a_link_where_a_waiting_job_works_keeps_a_checkpoint_though_the_job_names_nothing():
    with workshop() as shop:
        shop.start_job()
        shop.train(range(1, 7), saves_per_look=6)
        shop.end_jobs()
        shop.wait(90)
        place = shop.root / "waiting"
        place.mkdir()
        own(place)
        job = shop.make_job(2, state=JobState.PENDING, started_at=None, comment="", work_dir=PurePosixPath(place))
        shop.queue.jobs = (*shop.queue.jobs, job)
        shop.poll()
        assert 2 not in shop.state.latest(QueuedMentions).by_job
        (place / "start.pt").symlink_to(shop.directory / "epoch_2.npz")
        os.chown(place / "start.pt", UID, -1, follow_symlinks=False)
        shop.act()
        assert "epoch_2.npz" in shop.names()
        assert shop.state.latest(QueuedMentions).by_job[2].links
        shop.poll()
        assert shop.state.latest(QueuedMentions).by_job[2].links
        shop.queue.jobs = shop.queue.jobs[:-1]
        shop.poll()
        assert 2 not in shop.state.latest(QueuedMentions).by_job
