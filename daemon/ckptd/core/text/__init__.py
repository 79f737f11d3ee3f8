"""Reads and writes short texts: durations, sizes, host lists, shell words, JSON numbers."""
