"""All layouts. A new framework is a row in one of these files."""

from layouts.real import data, huggingface, learners, lightning, parallel, research, scripts, simulation, tensorflow_jax

ROWS = (
    *scripts.ROWS,
    *research.ROWS,
    *huggingface.ROWS,
    *parallel.ROWS,
    *lightning.ROWS,
    *tensorflow_jax.ROWS,
    *learners.ROWS,
    *simulation.ROWS,
    *data.ROWS,
)
