"""One life of the daemon after another on one database: a told cluster, a told disk, and the real cycle."""

from dataclasses import replace
from datetime import timedelta

from ckptd.checkpoints.agent import scan_json
from ckptd.core.model import PastJobs, Unknown
from ckptd.service.step_table import run_once
from ckptd.steps import finished_runs
from ckptd.steps.snapshots import RunHistories
from ckptd.steps.state import begin
from support.migrated import open_record
from support.parts import make_parts, make_rules
from support.queue_facts import CLUSTER, RUN, at, look, make_job, make_scan
from support.whole_answers import WholeAnswers

OTHERS = [
    make_job(number, uid=2000, user="bob", comment="ckpt=saves") for number in (91, 92, 93)
]  # so that the queue is never empty
WISHES = {"epochs": 30, "mute": ["too-sparse"], "resubmit": True, "max_resubmits": 2, "keep": {"last": 3}}


class Cluster:
    name = "told"

    def __init__(self):
        self.jobs = ()
        self.ended = ()
        self.past = ()
        self.asked = []

    def read_queue(self, now):
        return look((now - at(0)) / timedelta(minutes=1), *self.jobs)

    def read_ended(self, job_ids, since):
        return self.ended

    def read_past(self, since, until):
        if isinstance(self.past, Unknown):
            return self.past
        self.asked.append((since, until))
        return PastJobs(tuple(each for each in self.past if since <= each.ended_at <= until), until)

    def read_batch_script(self, job, *, is_urgent=False):
        return Unknown(what="batch script", reason="not asked")


class Disk(WholeAnswers):
    """Answers as the agent does: the first user's runs are in one directory, all others have none."""

    def __init__(self):
        self.user_settings = WISHES
        self.checkpoints = ()
        self.trouble = None
        self.problems = ()
        self.located_by = "comment"
        self.free_bytes = 1000
        self.took = timedelta(0)

    def run(self, batches):
        return [[self.trouble or self._answer(batch, item) for item in batch.items] for batch in batches]

    def _answer(self, batch, item):
        if batch.operation == "locate":
            directory = RUN.directory if batch.uid == RUN.uid else None
            user_settings = self.user_settings if batch.uid == RUN.uid else {"mute": ["no-room"]}
            now_ns = item["since_ns"]
            found = {
                "directory": directory,
                "first_ns": now_ns,
                "newest_ns": now_ns,
                "is_only": True,
                "role": "data",
                "is_named_for_job": False,
                "saves": [],
            }
            return {
                "directory": directory,
                "located_by": directory and self.located_by,
                "user_settings": user_settings,
                "problems": [],
                "entry_count": 0,
                "unread_count": 0,
                "found": found if directory and self.located_by == "discovery" else None,
            }
        scan = make_scan((item["now"] - at(0).timestamp()) / 60, *self.checkpoints, free_bytes=self.free_bytes)
        return scan_json.encode_scan(replace(scan, problems=self.problems, finished_at=scan.scanned_at + self.took))


class Service:
    """One life of the daemon."""

    def __init__(self, url, source, disk, minutes):
        self.parts = make_parts(CLUSTER, source, open_record(url), disk, rules=make_rules())
        self.now = at(minutes)
        self.state = begin(self.parts, self.now)

    def run(self, minutes, *jobs):
        self.parts.source.jobs = (*jobs, *OTHERS)
        self.now = at(minutes)
        run_once(self.parts, self.state, self.now)
        return self.state.latest(RunHistories).by_run.get(RUN)

    def finished(self):
        return finished_runs.list_finished(self.parts, self.state, self.state.latest(RunHistories).by_run, self.now)
