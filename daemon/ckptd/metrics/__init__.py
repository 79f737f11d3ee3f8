"""The daemon's state for Prometheus, from memory: a scrape reads no disk, database or Slurm."""
