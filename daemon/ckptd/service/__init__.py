"""The running daemon: wiring, schedule, signals, privileges, and what it reports to systemd."""
