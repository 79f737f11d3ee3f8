"""What can keep a private cluster from running, told in one sentence each."""


class DemoError(Exception):
    """The private cluster cannot run here; the text says what is missing and what to do."""
