"""The daemon's state for Prometheus, from what is in memory: a scrape asks no disk, no database and no Slurm."""
