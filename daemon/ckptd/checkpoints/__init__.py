"""Finds, reads and moves checkpoints. Whatever touches files of users does so as their owner, in a child."""
