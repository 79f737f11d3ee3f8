"""Detect checkpoints on temporary storage only: a node's local disk, memory, or paths that the site lists."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import ClassVar

from ckptd.core.discovery.declared import declared_path, split_locations
from ckptd.core.health.interface import FindingBuilder, not_whole
from ckptd.core.model import Evidence, Finding, Job, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.text.path_patterns import is_below


@dataclass(frozen=True, slots=True)
class VolatilePath:
    """Flag a run whose checkpoint directory is below one of `paths` or on one of `filesystem_types`.

    If no directory was found, the rule checks the one that the job's comment names. `paths` may be shell patterns.
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
            volatile = next((path for path in self.paths if is_below(directory, path)), None)
            needs_scan = volatile is None and history.key.is_located and bool(self.filesystem_types)
            if needs_scan and not isinstance(scan, Scan):
                return not_whole(self.name)  # only a scan tells the type: no flag opens or resolves without one
            if volatile is None and kind not in self.filesystem_types:
                continue
            evidence: dict[str, Evidence] = {
                "directory": directory,
                "temporary_path": volatile,
                "filesystem_type": kind,
                "checkpoints": facts.total(history).checkpoint_count,
            }
            findings.append(FindingBuilder(self.name, history).make_finding(job, Severity.WARNING, evidence))
        return findings


def _directory(history: RunHistory, job: Job) -> str | None:
    if history.key.is_located:
        return history.key.directory
    stated = declared_path(job)
    return str(PurePosixPath(split_locations(stated)[0])) if stated is not None and stated.startswith("/") else None
