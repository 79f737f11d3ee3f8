"""The health rules, one a file; `RULES` lists them."""

from ckptd.core.health.at_risk import AtRisk
from ckptd.core.health.checkpoint_overdue import CheckpointOverdue
from ckptd.core.health.checkpoints_not_located import CheckpointsNotLocated
from ckptd.core.health.concurrent_writers import ConcurrentWriters
from ckptd.core.health.configured_margins import find_margins
from ckptd.core.health.copy_behind import CopyBehind
from ckptd.core.health.copy_differs import CopyDiffers
from ckptd.core.health.damaged_checkpoint import DamagedCheckpoint
from ckptd.core.health.evaluation import Evaluation, evaluate, evaluate_until
from ckptd.core.health.foreign_owner import ForeignOwner
from ckptd.core.health.interface import Rule
from ckptd.core.health.interrupted_save import InterruptedSave
from ckptd.core.health.job_held import JobHeld
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.no_room import NoRoom
from ckptd.core.health.not_requeueable import NotRequeueable
from ckptd.core.health.not_resubmitted import NotResubmitted
from ckptd.core.health.not_resuming import NotResuming
from ckptd.core.health.overrides import Override, choose_rules
from ckptd.core.health.reported_damage import ReportedDamage
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.health.resubmitted import WasResubmitted
from ckptd.core.health.too_frequent import TooFrequent
from ckptd.core.health.too_sparse import TooSparse
from ckptd.core.health.unsafe_pickle import UnsafePickle
from ckptd.core.health.volatile_path import VolatilePath
from ckptd.core.health.will_be_purged import WillBePurged
from ckptd.core.health.will_not_finish import WillNotFinish

RULES: dict[str, type[Rule]] = {
    "restarted-without-checkpoint": RestartedWithoutCheckpoint,
    "checkpoints-not-located": CheckpointsNotLocated,
    "no-checkpoint-yet": NoCheckpointYet,
    "checkpoint-overdue": CheckpointOverdue,
    "at-risk": AtRisk,
    "damaged-checkpoint": DamagedCheckpoint,
    "reported-damage": ReportedDamage,
    "copy-behind": CopyBehind,
    "copy-differs": CopyDiffers,
    "interrupted-save": InterruptedSave,
    "not-resuming": NotResuming,
    "restart-loop": RestartLoop,
    "job-held": JobHeld,
    "not-resubmitted": NotResubmitted,
    "resubmitted": WasResubmitted,
    "concurrent-writers": ConcurrentWriters,
    "too-frequent": TooFrequent,
    "too-sparse": TooSparse,
    "volatile-path": VolatilePath,
    "will-be-purged": WillBePurged,
    "no-room": NoRoom,
    "will-not-finish": WillNotFinish,
    "not-requeueable": NotRequeueable,
    "unsafe-pickle": UnsafePickle,
    "foreign-owner": ForeignOwner,
}

__all__ = ["RULES", "Evaluation", "Override", "Rule", "choose_rules", "evaluate", "evaluate_until", "find_margins"]
