"""How runs and flags are worded for people: labels, numbers, rows of tables. Nothing here decides."""
