"""Totals over all runs, for metrics and the status page."""
