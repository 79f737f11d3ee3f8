"""ckptd watches every Slurm job's remaining time and checkpoints."""

from importlib.metadata import version

__version__ = version("ckptd")
