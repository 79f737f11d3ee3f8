"""ckptd watches every Slurm job's remaining time and checkpoints."""
