"""Plans the copies of a run like the run itself: in each location by itself, with the jobs and attempts of the run.

A copy is proven to be one of the run's checkpoints if it has the path below the location, the names, the sizes and the
modification times of a checkpoint that a job of the run was seen writing (`rsync --times` compares the same). A copy
that `cp` gave a new date is not proven and stays. The content of one location only adds reasons to keep in the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ckptd.core.model import CheckpointState, CopyLocation, FileIdentity, RecordedCheckpoint, RunRecord
from ckptd.core.runs.copied_checkpoints import CopyIdentity, identify, identify_by_name

TOLERANCE_NS = 2_000_000_000  # of times of modification: some file systems keep even seconds only

_Relative = tuple[str, CopyIdentity]  # the place below the location, and what a copy shares with its original


def plan_as_copy(copy: RunRecord, primary: RunRecord) -> RunRecord:
    """Return the record of a further location with the jobs of its run, and with the writers of proven copies."""
    originals: dict[_Relative, list[RecordedCheckpoint]] = defaultdict(list)
    for each in primary.checkpoints:
        if each.attempt is not None and each.checkpoint.owner_uids == {primary.key.uid}:
            originals[_place(each, primary.key.directory)].append(each)
    own = CopyLocation(directory=primary.key.directory, scan=primary.scan, checkpoints=primary.checkpoints)
    others = (each for each in primary.copies if each.directory != copy.key.directory)
    return replace(
        copy,
        jobs=primary.jobs,
        attempts=primary.attempts,
        suspended_until=primary.suspended_until,
        other_writers=(*primary.other_writers, *copy.other_writers),
        user_settings=primary.user_settings,
        checkpoints=tuple(_credit(each, copy.key.directory, originals) for each in copy.checkpoints),
        copies=(own, *others),
    )


def _place(record: RecordedCheckpoint, directory: str) -> _Relative:
    return str(record.checkpoint.path).removeprefix(directory), identify(record.checkpoint)


def _credit(
    record: RecordedCheckpoint, directory: str, originals: Mapping[_Relative, Iterable[RecordedCheckpoint]]
) -> RecordedCheckpoint:
    """Return a copy with the attempt that wrote its original, if that is proven."""
    if record.attempt is not None:
        return record
    for each in originals.get(_place(record, directory), ()):
        pairs = zip(record.checkpoint.identities, each.checkpoint.identities, strict=False)
        if all(_is_of_one_time(*pair) for pair in pairs):
            return replace(record, attempt=each.attempt)
    return record


def _is_of_one_time(copy: FileIdentity, original: FileIdentity) -> bool:
    return abs(copy.modified_ns - original.modified_ns) <= TOLERANCE_NS


def find_reason_to_skip(history: RunRecord) -> str | None:
    """Return why nothing may be removed in a location, because of the other locations of its runs, or None."""
    if not history.is_only_copy:
        return "it is a further location of another run" if history.primaries else None
    if not history.primaries:
        return "it is no longer a further location of any run"
    if len(history.primaries) > 1:
        return "it is a further location of several runs"
    primary = history.copies[0] if history.copies else None
    if primary is None or not history.primaries[0].is_located:
        return "the primary location of its run is not known"
    if not primary.was_read_whole:
        return f"the primary location {primary.directory} was not read completely"
    return None


def list_needed(history: RunRecord, resumed: Mapping[str, str]) -> Iterator[tuple[CopyIdentity, str]]:
    """Yield what must stay here because another location has no complete one of it, with the reason.

    `resumed` are the paths that running attempts resumed from, or may have resumed from.
    """
    for location in history.copies:
        complete = {
            identify_by_name(each.checkpoint)
            for each in location.checkpoints
            if each.deleted_at is None and each.checkpoint.state is CheckpointState.COMPLETE
        }
        for each in location.checkpoints:
            name = identify_by_name(each.checkpoint)
            if name in complete:
                continue
            if each.deleted_at is None:
                yield name, f"{each.checkpoint.path} is {each.checkpoint.state.value}, and this may be its last copy"
            elif str(each.checkpoint.path) in resumed:
                yield name, f"{resumed[str(each.checkpoint.path)]} ({each.checkpoint.path}, which is deleted)"
