"""A private Slurm cluster on this host, for the demonstration and for the tests.

Everything lives in one directory: a munge key and socket, slurm.conf, state, logs, homes of its own job users.
It neither reads nor disturbs a Slurm that the machine may already run. The standard library is enough for it,
except for the live view of the demonstration.
"""
