"""Verification by jobs of the files' owners: tasks, tickets, and what of a result is believed."""
