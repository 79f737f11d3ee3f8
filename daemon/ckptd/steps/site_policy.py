"""The site's retention settings, as values that all of pruning uses."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath

from ckptd.core import retention


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePolicy:
    """The site's policies and limits."""

    matches: tuple[retention.PolicyMatch, ...]
    bounds: retention.Bounds
    caps: retention.Caps
    guards: retention.Guards
    interval: timedelta  # between two steps
    hold: timedelta
    no_room_hold: timedelta | None
    deadline: timedelta  # of moving or deleting what one batch asks for
    look_deadline: timedelta  # of only looking into trashes
    verify_deadline: timedelta
    allowed_roots: tuple[PurePosixPath, ...]
