"""Sections for the cluster, the database and the scans of checkpoint directories."""

import posixpath
import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from ckptd.config.base import TEMPLATE_VARIABLES, Duration, Pattern, Section
from ckptd.config.listing_settings import find_url_mistake
from ckptd.core.discovery.declared import MAX_LOCATIONS
from ckptd.core.text.similar_names import nearest

REST_URL = re.compile(r"unix:/\S+|https?://(?:[\w.-]+|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?", re.ASCII)


class SlurmSection(Section):
    """How ckptd reads the cluster's jobs."""

    source: Literal["auto", "pyslurm", "squeue", "slurmrestd", "replay"] = "auto"
    """How to read the queue: `auto` uses pyslurm if it works, otherwise the `squeue` on PATH."""
    cluster: str | None = None
    """Name of the cluster; by default ClusterName of slurm.conf."""
    poll_interval: Duration = timedelta(seconds=60)
    """Time between polls of the queue; each poll is one query."""
    timeout: Duration = timedelta(seconds=30)
    """Maximum time that Slurm may take to answer a query."""
    backfill: bool = True
    """Whether to record from accounting the jobs that started and ended while ckptd did not poll the queue."""
    backfill_after: Duration = timedelta(minutes=5)
    """Backfill after a gap between polls that is longer than this; at most MinJobAge of slurm.conf (default 300 s)."""
    backfill_max_age: Duration = timedelta(days=7)
    """Ignore jobs in accounting that ended longer ago than this."""
    replay_path: Path | None = None
    """For `source = "replay"`: a directory of recorded snapshots."""
    rest_url: str = "unix:/run/slurmrestd/slurmrestd.socket"
    """For `source = "slurmrestd"`: its socket, or an address such as "https://host:6820"."""
    rest_token_file: Path | None = None
    """For `source = "slurmrestd"`: a file with a JWT, mode 0600, read for each request; default: rest_auth/local."""
    read_batch_scripts: bool = False
    """Whether ckptd may read batch scripts, to find a job's checkpoint directory and what it resumes from."""

    @field_validator("cluster")
    @classmethod
    def _cluster_is_a_name(cls, name: str | None) -> str | None:
        if name is not None and (name == "all" or re.fullmatch(r"[\w.-]+", name) is None):
            raise ValueError(f"{name!r} is not the name of a cluster; use ClusterName of slurm.conf")
        return name

    @field_validator("rest_url")
    @classmethod
    def _rest_url_is_an_address(cls, url: str) -> str:
        if not REST_URL.fullmatch(url):
            raise ValueError(f"{url!r} is none of unix:/path/of/socket, http://host:port, https://host:port")
        return url

    @model_validator(mode="after")
    def _replay_needs_a_path(self) -> "SlurmSection":
        if self.source == "replay" and self.replay_path is None:
            raise ValueError('source = "replay" needs replay_path')
        return self


class StoreSection(Section):
    """The database."""

    url: str | None = None
    """SQLAlchemy URL such as postgresql+psycopg://ckptd@db.example.org/ckptd; by default SQLite."""
    password_file: Path | None = None
    """File that contains the database password, to keep it out of the URL. It is read for each new connection."""
    upgrade: Literal["on-start", "refuse"] = "on-start"
    """What the daemon does with the tables of an older version: upgrade them on start, or refuse to start."""
    keep: Duration = Field(default=timedelta(days=365), ge=timedelta(days=30))
    """Delete the records of runs that ended longer ago, except runs with checkpoints on disk or in the trash."""
    keep_checkpoints: Duration = Field(default=timedelta(days=30), ge=timedelta(days=7))
    """Keep only sums of the deleted checkpoints of runs that ended longer ago, and records of the last ones."""

    @field_validator("url")
    @classmethod
    def _url_is_of_a_known_database(cls, url: str | None) -> str | None:
        if url and (mistake := find_url_mistake(url)):
            raise ValueError(mistake)
        return url


class ScanSection(Section):
    """How ckptd scans checkpoint directories."""

    interval: Duration = timedelta(minutes=5)
    """Time between scans of a running job's directory; changes that inotify reports trigger earlier scans."""
    write_grace: Duration = timedelta(seconds=60)
    """An invalid file that changed within this time counts as still being written."""
    deadline: Duration = timedelta(seconds=60)
    """Longest time for up to 16 directories of one user, 10 times that while computing; the next request continues."""
    max_depth: int = Field(default=6, ge=1, le=32)
    """Maximum number of levels scanned below the checkpoint directory; Python environments and `.git` are skipped."""
    max_entries: int = Field(default=200_000, ge=1)
    """Maximum number of entries scanned in one checkpoint directory."""
    discovery_depth: int = Field(default=6, ge=0, le=8)
    """Levels below the working directory to search for checkpoints when nothing names their directory."""
    discovery_entries: int = Field(default=20_000, ge=1)
    """Maximum number of entries read by such a search."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Values of environment variables in jobs, such as SCRATCH = "/scratch/{user}", with the templates of [[watch]].
    They are filled in where a job's comment or batch script names its checkpoint directory. ckptd also searches these
    places for directories that have the job's id in their name."""
    allowed_roots: tuple[PurePosixPath, ...] = Field(default=(PurePosixPath("/"),), min_length=1)
    """ckptd never reads anything outside these directories, even if links lead there."""
    inotify: bool = True
    """Whether to watch local file systems for changes with inotify. Directories that changed are scanned before their
    turn: up to 120 at once, then one a second."""
    quota_command: tuple[str, ...] = ()
    """Command that prints the quota of a directory's owner; it runs as the owner. Use ["quota"] for quota(1), or a
    command that prints the used bytes and the limit, as two words or as JSON ("used_bytes", "limit_bytes"). ckptd
    replaces the arguments {user} {uid} {path} {mount}; scripts find them in $CKPTD_USER and so on."""

    workspace_databases: tuple[PurePosixPath, ...] = ()
    """The `database` directories of hpc-workspace's /etc/ws.conf. ckptd reads there, as a run's owner, when the
    workspace of the run's directory expires; they need not be below allowed_roots."""

    @field_validator("allowed_roots", "workspace_databases")
    @classmethod
    def _paths_are_absolute(cls, paths: tuple[PurePosixPath, ...]) -> tuple[PurePosixPath, ...]:
        relative = [
            f'"{path}" is not an absolute path; use for example "/scratch"' for path in paths if not path.is_absolute()
        ]
        climbing = [f'"{path}" contains ".."; write the path that it leads to' for path in paths if ".." in path.parts]
        if relative or climbing:
            raise ValueError(", and ".join(relative + climbing))
        return paths

    @field_validator("variables")
    @classmethod
    def _variables_are_templates(cls, variables: dict[str, str]) -> dict[str, str]:
        for name, template in variables.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ValueError(f"{name!r} is not the name of an environment variable; use for example SCRATCH")
            if not template.startswith(("/", "{home}", "~/")):
                raise ValueError(f'{name}: {template!r} is not an absolute path; use for example "/scratch/{{user}}"')
            _check_template(template)
        return variables

    @field_validator("quota_command")
    @classmethod
    def _variables_stand_alone(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        for word in command:
            for variable in re.findall(r"\{(user|uid|path|mount)\}", word):
                if word != f"{{{variable}}}":
                    name = f"$CKPTD_{variable.upper()}"
                    raise ValueError(f"{{{variable}}} must be a separate argument; in a script, use {name}")
        return command


def _check_template(template: str) -> None:
    for variable in re.findall(r"\{([^{}]*)\}", template):
        if variable not in TEMPLATE_VARIABLES:
            raise ValueError(f"{{{variable}}} is not a variable{nearest(variable, TEMPLATE_VARIABLES)}")


class WatchRule(Section):
    """Checkpoint directory of the jobs that match these shell patterns. The first directory that exists is used."""

    directory: str | None = None
    """May contain {work_dir} {user} {home} {account} {partition} {cluster} {job_name} {job_id} {array_job_id}
    {array_task_id}."""
    directories: tuple[str, ...] = Field(default=(), max_length=MAX_LOCATIONS)
    """Instead of `directory`: the primary location, then directories that checkpoints are copied to."""
    partition: Pattern = "*"
    account: str = "*"
    user: Pattern = "*"
    qos: str = "*"
    job_name: Pattern = "*"

    @field_validator("directory")
    @classmethod
    def _variables_are_known(cls, directory: str | None) -> str | None:
        _check_template(directory or "")
        return directory

    @field_validator("directories")
    @classmethod
    def _variables_of_all_are_known(cls, directories: tuple[str, ...]) -> tuple[str, ...]:
        for each in directories:
            _check_template(each)
            if not each:
                raise ValueError("a directory is empty")
        return directories

    @model_validator(mode="after")
    def _one_of_both_is_given(self) -> Self:
        if bool(self.directory) == bool(self.directories):
            raise ValueError("give either directory or directories")
        return self


class FileSystemRule(Section):
    """Limits for scans and searches on one file system, so that its metadata server does not suffer.

    Limited scans are later than `scan.interval`. If several paths contain a directory, the longest path applies.
    """

    path: str
    """The mount point, or a directory below it, such as "/scratch"."""
    entries_per_second: int | None = Field(default=None, ge=100)
    """Maximum number of directory entries read in a second, on average."""
    parallel: int | None = Field(default=None, ge=1)
    """Maximum number of users whose directories are scanned at the same time."""

    @field_validator("path")
    @classmethod
    def _path_is_absolute(cls, path: str) -> str:
        return _check_absolute(path)

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.entries_per_second is None and self.parallel is None:
            raise ValueError("give entries_per_second, parallel or both")
        return self


class SitePurgeRule(Section):
    """Files that the site deletes by itself. ckptd warns users (`will-be-purged`), and deletes none of them.

    The first rule whose path matches a checkpoint applies.
    """

    path: str
    """Directory or shell pattern, such as "/scratch" or "/lustre/*/scratch"; the rule covers all files below it."""
    days: int = Field(ge=1, le=36_500)
    """Files of this age are deleted."""
    by: Literal["atime", "mtime", "ctime"] = "atime"
    """What their age counts from: the last access, modification or change of the inode. ckptd does not record accesses:
    it takes the modification, or the restart that loaded the checkpoint, for the earliest possible date."""

    @field_validator("path")
    @classmethod
    def _path_is_absolute(cls, path: str) -> str:
        return _check_absolute(path)


class SharedRule(Section):
    """Directories that several clusters of one database mount: the same files at the same paths, with the same uids.

    A run there that continues on another of these clusters stays one run. This holds between two clusters if the
    configurations of both daemons say so. Entries that do not name the daemon's own cluster are ignored.
    """

    clusters: tuple[str, ...] = Field(min_length=2)
    """Names of the clusters, as in slurm.cluster."""
    directories: tuple[str, ...] = Field(min_length=1)
    """Everything below them is shared, such as "/project"."""

    @field_validator("clusters")
    @classmethod
    def _clusters_differ(cls, clusters: tuple[str, ...]) -> tuple[str, ...]:
        for name in clusters:
            if not name or clusters.count(name) > 1:
                raise ValueError(f"{name!r} is listed twice" if name else "a name is empty")
        return clusters

    @field_validator("directories")
    @classmethod
    def _directories_are_real_paths(cls, directories: tuple[str, ...]) -> tuple[str, ...]:
        for path in directories:
            _check_absolute(path)
            if path != posixpath.normpath(path) or path == "/":
                raise ValueError(f'{path!r} must be a directory without ".", ".." and a slash at its end')
        return directories


def find_overlap(rules: Iterable[SharedRule]) -> str | None:
    """Return an error if two clusters share a directory twice, or one inside another."""
    declared = [(frozenset(rule.clusters), path) for rule in rules for path in rule.directories]
    for place, (clusters, path) in enumerate(declared):
        for others, other in declared[:place]:
            if len(clusters & others) > 1 and f"{path}/".startswith(f"{other}/"):
                return f'"{path}" is shared already, by the entry "{other}"'
            if len(clusters & others) > 1 and f"{other}/".startswith(f"{path}/"):
                return f'"{other}" is shared already, by the entry "{path}"'
    return None


def _check_absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f'{path!r} is not an absolute path; use for example "/scratch"')
    return path
