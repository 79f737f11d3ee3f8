"""Finds, reads and moves checkpoints, as the owner of the files, in child processes."""
