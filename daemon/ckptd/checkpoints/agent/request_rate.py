"""Counts requests per user, so that no user's requests keep the agent from those of others."""

from collections.abc import Hashable

WINDOW_SECONDS = 60.0
MAX_REMEMBERED = 100_000


class RequestRate:
    """Allows so many requests at once, and as many again in every minute after them."""

    def __init__(self) -> None:
        self._used: dict[Hashable, tuple[float, float]] = {}  # how much of the limit, and when that was

    def take(self, user: Hashable, limit: int, now: float) -> bool:
        """Count one request; False where the user has none left. `now` is in seconds of a clock that never jumps."""
        used, at = self._used.get(user, (0.0, now))
        used = max(0.0, used - (now - at) * limit / WINDOW_SECONDS)
        if used + 1 > limit:
            return False
        if user not in self._used and len(self._used) >= MAX_REMEMBERED:
            self._used = {each: state for each, state in self._used.items() if now - state[1] < WINDOW_SECONDS}
        self._used[user] = (used + 1, now)
        return True
