"""The status page, its API and /metrics. They show what is on record and change nothing."""
