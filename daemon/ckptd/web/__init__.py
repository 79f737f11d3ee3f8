"""The status page, its API and /metrics. They change nothing."""
