"""The privileged process that acts on users' files as their owners, and its clients."""
