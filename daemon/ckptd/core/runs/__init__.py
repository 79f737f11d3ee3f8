"""Questions about one run: its history, progress, cadence, and the work that it lost."""
