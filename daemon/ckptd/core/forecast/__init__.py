"""The next checkpoint, the work at risk at the time limit, and how often to save."""
