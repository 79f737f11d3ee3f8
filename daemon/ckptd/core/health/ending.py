"""Which flags end because their attempt ends. Their problem was not fixed, so they are not reported as resolved."""

from collections.abc import Mapping
from datetime import datetime

from ckptd.core.health.copy_behind import CopyBehind
from ckptd.core.health.copy_differs import CopyDiffers
from ckptd.core.health.damaged_checkpoint import DamagedCheckpoint
from ckptd.core.health.foreign_owner import ForeignOwner
from ckptd.core.health.interrupted_save import InterruptedSave
from ckptd.core.health.reported_damage import ReportedDamage
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.health.unsafe_pickle import UnsafePickle
from ckptd.core.health.will_be_purged import WillBePurged
from ckptd.core.model import Flag, RunKey

# These rules are about files on disk or several attempts, so their flags stay open while the job is pending. All other
# rules are about the running attempt: their flags end with it, whether or not anything was saved.
OF_THE_RUN = frozenset(
    {
        CopyBehind.name,
        CopyDiffers.name,
        DamagedCheckpoint.name,
        ForeignOwner.name,
        InterruptedSave.name,
        ReportedDamage.name,
        RestartLoop.name,
        UnsafePickle.name,
        WillBePurged.name,
    }
)
ENDED = "ended_with_attempt"  # key in the evidence of such a flag


def ends_with_attempt(flag: Flag, running_since: Mapping[tuple[RunKey, int | None], datetime]) -> bool:
    """Whether the attempt in which a flag was seen no longer runs; of those that do it is given when they were met."""
    began_at = running_since.get((flag.finding.run, flag.finding.job_id))
    return flag.finding.rule not in OF_THE_RUN and (began_at is None or began_at > flag.opened_at)
