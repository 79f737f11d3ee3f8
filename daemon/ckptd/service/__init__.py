"""The running daemon: wiring, schedule, signals, privileges, and what it tells systemd."""
