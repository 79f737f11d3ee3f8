"""One module for each line of the daemon's table: observe, record, decide, act, publish.

Each has `run(parts, state, now) -> StepResult`. A step never imports another one: it reads the snapshots that others
publish in the state, or requests a poll or scan from the runner in its parts. Steps that query Slurm or scan
directories hold no lock meanwhile; steps that record hold the record lock for one short transaction. A failed
observation is Unknown and changes nothing.
"""
