"""Questions about one run: its history, its progress, its cadence, and the work that it lost."""
