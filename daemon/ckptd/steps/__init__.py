"""One module for each line of the daemon's table: observe, record, decide, act, publish.

Each has `run(parts, state, now) -> StepResult`. A step never imports another one: what it needs of others it reads from
what they published in the state, or asks the runner in its parts for. The steps that ask Slurm or scan directories take
no lock meanwhile; those that record hold the record lock for as long as one short transaction. What could not be seen
is Unknown and changes nothing either.
"""
