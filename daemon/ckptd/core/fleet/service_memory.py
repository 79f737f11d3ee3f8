"""The memory of the daemon and its helpers, and the limit at which the kernel ends one of them."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceMemory:
    """Bytes of all processes of the service's control group."""

    used_bytes: int
    limit_bytes: int
