"""Lists a directory as its owner, recognises the checkpoints in it, and reads them in limited child processes."""
