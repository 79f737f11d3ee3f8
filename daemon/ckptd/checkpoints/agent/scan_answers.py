"""Answers to scans, which are decoded when the checkpoints are needed. A child may be subverted by what it reads."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.checkpoints.agent import scan_json
from ckptd.checkpoints.agent.answer_pieces import count_items
from ckptd.checkpoints.agent.batches import decode_answer
from ckptd.checkpoints.agent.client import Answer
from ckptd.core.model import RunKey, Scan, Unknown

MAX_NEW = scan_json.MAX_DECODED  # checkpoints that are not on record, of one owner in one request
_TOO_MANY = Unknown(what="directory", reason=f"its owner's directories have more than {MAX_NEW} new checkpoints")


class ScanAnswer(NamedTuple):
    """The answer to one scan; decode it when the checkpoints are needed, of which there may be many."""

    key: RunKey
    answer: Answer
    known_count: int
    quota: Scan | None  # the earlier scan that has it

    @property
    def checkpoint_count(self) -> int:
        """How many checkpoints there are, at most."""
        return 0 if isinstance(self.answer, Unknown) else count_items(self.answer.get("checkpoints"))

    @property
    def entry_count(self) -> int | None:
        """How many directory entries the scan read; None if it failed."""
        count = None if isinstance(self.answer, Unknown) else self.answer.get("entry_count")
        return max(count, 0) if isinstance(count, int) else None

    def decode(self) -> Scan | Unknown:
        """Return the scan."""
        found = decode_answer(self.answer, partial(decode_scan_of, self.key, known_count=self.known_count))
        return with_quota(found, self.quota)


def limit_counts(answers: Iterable[ScanAnswer]) -> list[ScanAnswer]:
    """Return answers to one request, without those that would make the new checkpoints of an owner too many.

    A row of a table takes 13 bytes in an answer, and 14 us to decode: the largest answer would take two minutes.
    """
    counts: Counter[int] = Counter()
    found = []
    for each in answers:
        count = counts[each.key.uid] + max(0, each.checkpoint_count - each.known_count)
        if count > MAX_NEW:
            found.append(each._replace(answer=_TOO_MANY))
            continue
        counts[each.key.uid] = count
        found.append(each)
    return found


def decode_scan_of(key: RunKey, data: dict[str, Any], known_count: int = 0) -> Scan:
    """Decode a scan of the directory of a run, as `scan_json.decode_scan`.

    Raises:
        KeyError, OverflowError, TypeError, ValueError: it is malformed, or of another directory.

    """
    scan = scan_json.decode_scan(data, known_count)
    if scan.directory != PurePosixPath(key.directory):
        raise ValueError(f"{scan.directory} is another directory")
    return scan


def with_quota(scan: Scan | Unknown, last: Scan | None) -> Scan | Unknown:
    """Return a scan with the quota of an earlier one, if there is one."""
    if isinstance(scan, Unknown) or last is None:
        return scan
    return replace(
        scan,
        quota_left_bytes=last.quota_left_bytes,
        quota_error=last.quota_error,
        quota_read_at=last.quota_read_at,
    )
