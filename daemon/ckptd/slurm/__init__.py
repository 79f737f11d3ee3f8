"""Job sources: squeue, pyslurm, slurmrestd or recordings; accounting, scripts and commands of Slurm."""
