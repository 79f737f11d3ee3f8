"""Why a request for a verification job is not accepted."""

from enum import StrEnum


class SkipReason(StrEnum):
    """Why an executor does not accept a request that it may accept from others, or later."""

    NO_ALLOCATION = "the owner has no allocation for verification jobs"
    REFUSED = "the verification job was refused"
    FULL = "the owner has too many verification jobs"
