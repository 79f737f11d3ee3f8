"""How runs and flags are worded for people: labels, numbers, summaries, rows of tables. Nothing here decides."""
