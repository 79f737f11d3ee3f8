"""Scans locations that only a job's nodes see: client, and program of the step."""
