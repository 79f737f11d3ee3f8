"""Where the checkpoints of a job may be, from what its user, its script and the site say."""
