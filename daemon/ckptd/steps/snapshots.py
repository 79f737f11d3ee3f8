"""What steps publish for others to read: never changed once published, only replaced."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ckptd.core.job_actions.action_policy import ActKind, PutOff


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """The actions on jobs since the start, by kind and result; and those that wait now, by what they wait for."""

    done: Mapping[tuple[ActKind, str], int] = field(default_factory=dict)
    put_off: Mapping[tuple[ActKind, PutOff], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """The messages since the start, by channel and result."""

    by_result: Mapping[tuple[str, str], int] = field(default_factory=dict)
