"""Decisions: facts and `now` in, values with reasons out; no input, no output."""
