"""Which cluster is watched, where the record is kept, and how directories are looked at."""

import re
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field, field_validator, model_validator

from ckptd.config.base import TEMPLATE_VARIABLES, Duration, Pattern, Section
from ckptd.core.text.formatting import nearest


class SlurmSection(Section):
    """How ckptd sees the cluster's jobs."""

    source: Literal["auto", "pyslurm", "squeue", "replay"] = "auto"
    """Who is asked: `auto` takes pyslurm where it works, else the `squeue` on PATH."""
    cluster: str | None = None
    """The cluster's name; by default slurm.conf's ClusterName."""
    poll_interval: Duration = timedelta(seconds=60)
    """The queue is read once in this time, with one query."""
    timeout: Duration = timedelta(seconds=30)
    """An answer that takes longer counts as none."""
    catch_up: bool = True
    """Whether accounting is asked for the jobs that came and went while nobody looked at the queue."""
    catch_up_after: Duration = timedelta(minutes=5)
    """A longer time without a look at the queue is caught up on: at most slurm.conf's MinJobAge, 300 s by default."""
    catch_up_most: Duration = timedelta(days=7)
    """What ended longer ago is not asked for."""
    replay_path: Path | None = None
    """For `source = "replay"`: a directory of recorded snapshots."""
    read_batch_scripts: bool = False
    """Whether batch scripts may be read, to find a job's checkpoint directory and what it resumes from."""

    @model_validator(mode="after")
    def _replay_needs_a_path(self) -> "SlurmSection":
        if self.source == "replay" and self.replay_path is None:
            raise ValueError('source = "replay" needs replay_path')
        return self


class StoreSection(Section):
    """Where the record is kept."""

    url: str | None = None
    """An SQLAlchemy address such as postgresql+psycopg://ckptd@db.example.org/ckptd; by default SQLite."""
    password_file: Path | None = None
    """A file that holds the database password, so that it stands in no address."""
    upgrade: Literal["on-start", "refuse"] = "on-start"
    """What the daemon does with a database of an older version."""
    keep: Duration = Field(default=timedelta(days=365), ge=timedelta(days=30))
    """Runs that ended longer ago leave the record, with all that is told of them; never one with checkpoints on disk
    or in the trash."""


class ScanSection(Section):
    """How checkpoint directories are looked at."""

    interval: Duration = timedelta(minutes=5)
    """Each directory of a running job is scanned once in this time; sooner where inotify tells of a change."""
    settle_time: Duration = timedelta(seconds=60)
    """A broken file that changed within this time is taken for one that is still being written."""
    deadline: Duration = timedelta(seconds=60)
    """A directory that takes longer is given up as unknown and tried again later."""
    max_depth: int = Field(default=6, ge=1, le=32)
    """How many levels below the checkpoint directory are read."""
    max_entries: int = Field(default=200_000, ge=1)
    """How many entries of one checkpoint directory are read."""
    discovery_depth: int = Field(default=3, ge=0, le=8)
    """How many levels below the working directory are searched where nobody says where the checkpoints are."""
    discovery_entries: int = Field(default=20_000, ge=1)
    """How many entries such a search reads."""
    allowed_roots: tuple[PurePosixPath, ...] = (PurePosixPath("/"),)
    """Nothing outside these directories is ever looked at, whatever links lead there."""
    inotify: bool = True
    """Whether changes on local file systems are seen as they happen."""
    quota_command: tuple[str, ...] = ()
    """Tells how much of a directory's owner's quota is used, run as the owner: ["quota"] for quota(1), else a command
    that prints the bytes used and the limit, as two words or in JSON ("used_bytes", "limit_bytes"). Arguments {user}
    {uid} {path} {mount} stand for theirs; a script finds them as $CKPTD_USER and so on."""

    @field_validator("quota_command")
    @classmethod
    def _variables_stand_alone(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        for word in command:
            for variable in re.findall(r"\{(user|uid|path|mount)\}", word):
                if word != f"{{{variable}}}":
                    name = f"$CKPTD_{variable.upper()}"
                    raise ValueError(f"{{{variable}}} must be an argument of its own, or be taken from {name}")
        return command


class WatchRule(Section):
    """Where the checkpoints of the jobs that match are; shell patterns. The first directory that exists wins."""

    directory: str
    """May hold {work_dir} {user} {home} {account} {partition} {cluster} {job_name} {job_id} {array_job_id}
    {array_task_id}."""
    partition: Pattern = "*"
    account: str = "*"
    user: Pattern = "*"
    qos: str = "*"
    job_name: Pattern = "*"

    @field_validator("directory")
    @classmethod
    def _variables_are_known(cls, directory: str) -> str:
        for variable in re.findall(r"\{([^{}]*)\}", directory):
            if variable not in TEMPLATE_VARIABLES:
                raise ValueError(f"{{{variable}}} is no variable{nearest(variable, TEMPLATE_VARIABLES)}")
        return directory
