"""One call of a store whose statements are explained."""

from collections.abc import Callable
from dataclasses import dataclass

from ckptd.store.store import Store


@dataclass(frozen=True)
class HotCall:
    """One call. `needed` is how many rows of one table it needs at most."""

    name: str
    run: Callable[[Store], object]
    needed: int
