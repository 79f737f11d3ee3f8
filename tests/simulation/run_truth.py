"""What really happened to a simulated run: its executions, its writes and its habits.

Instants are seconds since the world began.
"""

from dataclasses import dataclass, field

from ckptd.core.model import JobState, Role

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
QUEUED_SECONDS = 60  # from a submission to the start
GIGABYTE = 10**9


@dataclass
class Execution:
    """One attempt as it really went."""

    job_id: int
    restart_count: int
    start: float
    end: float
    limit: float
    limit_end: float  # the limit's end, a suspension added
    state: JobState
    told: JobState | None = None  # what accounting calls its end, where it was requeued
    suspended: tuple[float, float] | None = None
    array_job_id: int | None = None
    is_for_maintenance: bool = False  # its nodes were taken down in a maintenance
    done: float = 0.0  # the work that it resumed with
    loaded: "Write | None" = None  # what it resumed from


@dataclass
class Write:
    """One save as it really went. `end` is when its last byte was written, or when it was cut off."""

    name: str
    begin: float
    end: float
    step: int
    size: int
    execution: int
    is_whole: bool = True
    is_leftover: bool = False
    corrupt_from: float | None = None  # its bytes rot, and a deep look sees it from then on
    gone: float = float("inf")
    role: Role = Role.STATE
    shown_step: int | None = None  # what it states, if it counts each part of the work from 0
    value: float | None = None  # the loss that its name states
    modified: float | None = (
        None  # when its bytes were last changed, if not as it was written here: a copy may keep that
    )


@dataclass
class Run:
    """One run: its habits, its history, and what nobody is told."""

    number: int
    kind: str
    interval: float
    jitter: float
    save_time: float
    limit: float
    node_count: int
    work: float
    saves_at_limit: bool
    asked_lead: int | None  # its script asks for a signal so many seconds before its limit
    has_inotify: bool
    is_in_place: bool
    user_settings: dict = field(default_factory=dict)
    executions: list[Execution] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    unreadable: tuple[float, float] | None = None
    hung_from: float | None = None
    emptied_at: list[float] = field(default_factory=list)  # when a clean-up deleted all that was there
    free_drops_at: float | None = None  # from then on its disk has no room
    mean_between_interruptions: float = 0.0  # of all runs of its size, as it came out
    maintenance: tuple[tuple[float, float], ...] = ()  # of its nodes
    states_goal: bool = False  # its checkpoints say how far it shall go
    broken_resumes: list[int] = field(default_factory=list)  # executions that began again from nothing
    size: int = GIGABYTE
    located_by: str = "comment"  # "discovery": nobody says where it saves
    is_ordinary: bool = False  # its user never meant to checkpoint it
    kept_count: int = 2  # complete checkpoints that a new one leaves
    part_work: float | None = None  # of each fold, or of each value of a sweep: one after the other
    part_name: str = ""  # of one of them, before the name of a save
    sample_interval: float | None = None  # between the data files that it writes beside its checkpoints
    copies: list[Write] = field(default_factory=list)  # in a second location that it names
    copy_period: float | None = None  # between two copies; None: each save is copied at once
    copies_stop_at: float = float("inf")

    @property
    def saves(self) -> list[Write]:
        """What a restart may load."""
        return [write for write in self.writes if write.role is Role.STATE]

    @property
    def start(self) -> float:
        return self.executions[0].start

    @property
    def end(self) -> float:
        return max(execution.end for execution in self.executions)
