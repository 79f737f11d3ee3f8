"""The one base of every error that ckptd raises on purpose; its text is a sentence for people."""


class CkptdError(Exception):
    """Something that a user or an administrator can put right."""

    exit_status = 2  # of a command that ends with it: wrong usage or configuration
