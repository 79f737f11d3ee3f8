"""The privileged process that acts on users' files as their owners, and the clients that ask it."""
