"""Calculates when the site's own cleaning deletes a checkpoint: by the age of its files, or with their workspace.

What sites do, by their public documentation:

- Most count from the last access: NERSC (Perlmutter scratch: files not accessed for 8 weeks,
  docs.nersc.gov/filesystems/perlmutter-scratch), TACC (Frontera: 10 days, where a read or a modification is an access,
  cvw.cac.cornell.edu/frontera/storing-moving-data/filesystems), Pawsey (/scratch: 21 days), LLNL (60 days,
  hpc.llnl.gov/technical-bulletins/bulletin-492). OLCF purges its work areas after 90 days
  (docs.olcf.ornl.gov/data/policies.html).
- Some count from the modification: BIH (14 days, hpc-docs.cubi.bihealth.org/storage/scratch-cleanup), or from the
  latest of two times: Purdue (atime and mtime, 60 days, rcac.purdue.edu/policies/scratchpurge), the Alliance in Canada
  (atime and ctime, 60 days, docs.computecanada.ca/wiki/Scratch_purging_policy).
- LLNL, Purdue, NCSA and Iowa forbid `touch` and the like to keep files.
- They clean weekly or monthly, or when a file system is nearly full: a file is deleted some time after its date.

The access time is not kept on record: scans and backups read files, too, and mounts with `relatime` or `noatime` update
it late or never. The last access is not before the last modification, so a date by atime is the earliest possible one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ckptd.core.model import Attempt, Certainty, Checkpoint, FileClock, PurgeRule, SitePurge, Workspace
from ckptd.core.text.path_patterns import is_below

_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST_NS = 2**63 - 1  # in the year 2262: users can give their files any time
_KNOWN = frozenset({Certainty.PROVEN, Certainty.DECLARED})


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeDate:
    """When the first file of a checkpoint goes, and because of which rule or workspace."""

    goes_at: datetime
    reason: PurgeRule | Workspace
    counted_from: datetime | None = None  # the time of its oldest file; None: a workspace expires whatever is in it
    is_earliest: bool = False  # what the site counts from may be later

    def lead(self, wanted: timedelta) -> timedelta:
        """Return how long before the date it is due to be reported: no longer than half of the whole time.

        Otherwise each new checkpoint would be reported where files live for a few days only.
        """
        whole = self.reason.age if isinstance(self.reason, PurgeRule) else None
        if isinstance(self.reason, Workspace) and self.reason.created_at is not None:
            whole = self.reason.expires_at - self.reason.created_at
        return wanted if whole is None else min(wanted, max(whole, timedelta(0)) / 2)


def find_purge_date(checkpoint: Checkpoint, site: SitePurge, attempts: Iterable[Attempt] = ()) -> PurgeDate | None:
    """Return when the site deletes a checkpoint's first file; None where it does not.

    The first rule that matches the path applies. A set is as old as its oldest file, because it is lost with it. An
    attempt that surely loaded the checkpoint has accessed it at its start.
    """
    found: list[PurgeDate] = []
    if isinstance(site.workspace, Workspace):
        found.append(PurgeDate(goes_at=site.workspace.expires_at, reason=site.workspace))
    rule = find_rule(str(checkpoint.path), site.rules)
    if rule is not None:
        counted_from, is_earliest = _read_age(checkpoint, rule.by, attempts)
        found.append(
            PurgeDate(goes_at=counted_from + rule.age, reason=rule, counted_from=counted_from, is_earliest=is_earliest)
        )
    return min(found, key=lambda each: each.goes_at, default=None)


def find_rule(path: str, rules: Iterable[PurgeRule]) -> PurgeRule | None:
    """Return the first rule for a path."""
    return next((rule for rule in rules if is_below(path, rule.path)), None)


def _read_age(checkpoint: Checkpoint, by: FileClock, attempts: Iterable[Attempt]) -> tuple[datetime, bool]:
    """Return the time from which the site counts, and whether it may be a later one."""
    modified = [_instant(each.modified_ns) for each in checkpoint.identities]
    modified_at = min(modified, default=checkpoint.modified_at)
    if by is FileClock.MTIME:
        return modified_at, False
    if by is FileClock.CTIME:
        changed = [each.changed_ns for each in checkpoint.identities]
        return (_instant(min(changed)), False) if changed and all(changed) else (modified_at, True)
    loaded = [
        each.started_at
        for each in attempts
        if each.resumed_from is not None
        and each.resumed_from.certainty in _KNOWN
        and each.resumed_from.path == str(checkpoint.path)
    ]
    return max([modified_at, *loaded]), True


def _instant(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=max(0, min(nanoseconds, _LATEST_NS)) // 1000)
