"""Which jobs to signal, hold or resubmit, and why not. Nothing is sent here."""
