"""What may be done to a job before work is lost: signal, hold, resubmit. Decisions only; nothing is sent here."""
