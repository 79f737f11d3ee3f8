"""For agents in tests that only answer whole batches."""


class WholeAnswers:
    """An agent whose answers all come at the same time, from its `run`."""

    def run_as_answered(self, batches):
        if batches:
            yield list(enumerate(self.run(batches)))
