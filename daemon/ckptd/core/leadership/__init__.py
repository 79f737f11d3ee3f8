"""Which daemon acts for a cluster: the rules of a lease with a fencing epoch."""
