"""The scalar variables of a saved workspace, which show the progress of a run if the format has no field for it."""

from ckptd.checkpoints.formats import facts

_MOST = 2_000
_DEEPEST = 2


class Scalars:
    """Named numbers that a walk finds; of equal names the one nearest to the top is kept."""

    def __init__(self) -> None:
        self._ranked: dict[str, tuple[int, float]] = {}

    def add(self, name: str, value: float, depth: int) -> None:
        """Remember a variable, `depth` structures below the top."""
        name = name.replace(".", "_")
        known = self._ranked.get(name)
        if (
            depth <= _DEEPEST
            and (known is not None or len(self._ranked) < _MOST)
            and (known is None or depth < known[0])
        ):
            self._ranked[name] = (depth, value)

    @property
    def facts(self) -> facts.StateFacts:
        """The epoch, step and metrics among the variables; those nearer to the top win."""
        layers = [
            facts.find_facts({name: value for name, (depth, value) in self._ranked.items() if depth == layer})
            for layer in range(_DEEPEST + 1)
        ]
        return facts.StateFacts(
            epoch=next((layer.epoch for layer in layers if layer.epoch is not None), None),
            step=next((layer.step for layer in layers if layer.step is not None), None),
            metrics={name: value for layer in reversed(layers) for name, value in layer.metrics.items()},
        )
