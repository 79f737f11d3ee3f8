"""Small numbers for the words that every row of a checkpoint has. They never change their meaning: rows have them."""

from ckptd.core.model import CheckpointState, Level, Role

STATE_CODES = {
    CheckpointState.WRITING: 0,
    CheckpointState.COMPLETE: 1,
    CheckpointState.DAMAGED: 2,
    CheckpointState.UNKNOWN: 3,
}
ROLE_CODES = {Role.DATA: 0, Role.STATE: 1, Role.WEIGHTS: 2, Role.PART: 3}
LEVEL_CODES = {Level.STRUCTURE: 0, Level.LISTED: 1, Level.FULL: 2}

# for plain SQL
WRITING, COMPLETE, DAMAGED = (
    STATE_CODES[each] for each in (CheckpointState.WRITING, CheckpointState.COMPLETE, CheckpointState.DAMAGED)
)
STATE = ROLE_CODES[Role.STATE]
