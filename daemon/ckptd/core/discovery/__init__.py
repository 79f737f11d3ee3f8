"""Where a job's checkpoints may be, from what its user, its script and the site say."""
