"""Checkpoints only where they vanish: a compute node's own disk, memory, or what the site calls temporary."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import ClassVar

from ckptd.core.discovery.declared import declared_path
from ckptd.core.health.interface import Speaker
from ckptd.core.model import Evidence, Finding, Job, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class VolatilePath:
    """Holds while the run's directory, or the one that its job names, is below `paths` or on one of the types.

    `paths` are directories; a shell pattern stands for all that match.
    """

    name: ClassVar[str] = "volatile-path"
    paths: tuple[str, ...] = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/local", "/localscratch", "/scratch/local")  # noqa: S108 - they are looked for, not used
    filesystem_types: tuple[str, ...] = ("tmpfs", "ramfs")

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            directory = _directory(history, job)
            if directory is None:
                continue
            scan = history.scan
            kind = scan.filesystem_type if isinstance(scan, Scan) and history.key.is_located else None
            volatile = next((path for path in self.paths if _is_below(directory, path)), None)
            if volatile is None and kind not in self.filesystem_types:
                continue
            evidence: dict[str, Evidence] = {
                "directory": directory,
                "temporary_path": volatile,
                "filesystem_type": kind,
                "checkpoints": len(facts.present(history)),
            }
            advice = (
                f"What is in {directory} is lost with the node or swept by the site. Save to the parallel file system, "
                "or copy each checkpoint there as soon as it is whole, not at the job's end only."
            )
            findings.append(Speaker(self.name, history).say(job, Severity.WARNING, evidence, advice))
        return findings


def _directory(history: RunHistory, job: Job) -> str | None:
    if history.key.is_located:
        return history.key.directory
    stated = declared_path(job)
    return str(PurePosixPath(stated)) if stated is not None and stated.startswith("/") else None


def _is_below(directory: str, pattern: str) -> bool:
    if not _WILDCARDS & set(pattern):
        return directory == pattern or directory.startswith(pattern.rstrip("/") + "/")
    path = PurePosixPath(directory)
    return any(fnmatchcase(str(each), pattern.rstrip("/") or "/") for each in (path, *path.parents))
