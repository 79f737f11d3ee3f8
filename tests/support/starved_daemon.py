"""A daemon whose scans have time to read one file each, and which submits jobs for the rest at once: its program."""

from datetime import timedelta

from ckptd import cli
from ckptd.service import agent_start
from ckptd.steps import first_scan_jobs, follow_verifications

if __name__ == "__main__":
    agent_start.MODULE = "support.starved_agent"
    follow_verifications.INTERVAL = timedelta(seconds=1)
    first_scan_jobs.UNREAD_FOR = timedelta(0)
    cli.main()
