"""Not wired yet."""
