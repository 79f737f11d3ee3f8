"""Locations that only a job's nodes see: steps that scan them, and what is believed."""
