"""What happens in the demonstration: who submits what, and when an operator requeues jobs."""

import time
from collections.abc import Mapping

from demo.cluster import PrivateCluster
from demo.errors import DemoError
from demo.samples import Samples
from demo.users import JobUser

WHO_SUBMITS = {
    "alice": ("requeue", "array", "manager"),
    "bob": ("never-saves", "starts-over", "scratch"),
    "carol": ("saves-rarely", "shared-directory"),
}
SUBMITS_AGAIN = ("carol", "shared-directory")
AGAIN_AFTER_SECONDS = 10  # jobs that began together would save the same at the same instants, and no scan would tell
TO_REQUEUE = ("never-saves", "starts-over", "manager")
REQUEUE_AFTER_SECONDS = 30
PACE = {"EPOCH_SECONDS": "4", "TASK_EPOCHS": "5", "SAVE_EVERY": "9", "SCRATCH_EPOCHS": "20"}


class Scenario:
    """Submits the samples, then plays the operator as time passes."""

    def __init__(self, cluster: PrivateCluster, pace: Mapping[str, str] | None = None) -> None:
        self._cluster = cluster
        self._samples = Samples(cluster)
        self._pace = pace or PACE
        self._jobs: dict[str, int] = {}
        self._users: dict[str, JobUser] = {}
        self._again_at: float | None = None
        self._requeue_at: float | None = None
        self.events: list[str] = []

    def begin(self) -> None:
        """Create the users and submit every sample."""
        for name, samples in WHO_SUBMITS.items():
            self._users[name] = self._cluster.create_user(name)
            for sample in samples:
                self._submit(self._users[name], sample)
        self._again_at = time.monotonic() + AGAIN_AFTER_SECONDS
        self._requeue_at = time.monotonic() + REQUEUE_AFTER_SECONDS

    def advance(self) -> None:
        """Do what is due by now."""
        if self._again_at is not None and time.monotonic() >= self._again_at:
            self._again_at = None
            name, sample = SUBMITS_AGAIN
            self._submit(self._users[name], sample)
        if self._requeue_at is None or time.monotonic() < self._requeue_at:
            return
        self._requeue_at = None
        for sample in TO_REQUEUE:
            try:
                self._cluster.command("scontrol", "requeue", str(self._jobs[sample]))
            except DemoError as error:
                self._print_event(f"the operator could not requeue {sample}: {error}")
            else:
                self._print_event(f"the operator requeued {sample}; it runs again in about ten seconds")

    def _submit(self, user: JobUser, sample: str) -> None:
        self._jobs[sample] = self._samples.submit(user, sample, environment=self._pace)
        self._print_event(f"{user.name} submitted {sample}")

    def _print_event(self, event: str) -> None:
        self.events.append(f"{time.strftime('%H:%M:%S')}  {event}")
