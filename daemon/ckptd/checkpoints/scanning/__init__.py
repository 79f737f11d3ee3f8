"""Lists a directory, recognises the checkpoints in it, and reads them in limited children."""
