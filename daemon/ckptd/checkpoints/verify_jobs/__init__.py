"""Verifies checkpoints by Slurm jobs of their owners: executor, program and files."""
