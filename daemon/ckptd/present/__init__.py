"""How runs and flags are worded for people: labels, numbers, rows of tables. It makes no decisions."""
