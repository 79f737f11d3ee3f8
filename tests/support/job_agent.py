"""An agent whose verification jobs answer at once, or wait, as a test says."""

from dataclasses import dataclass, field

from ckptd.checkpoints.scanning.digest_operation import digest
from ckptd.core.model import CheckpointState, JobState
from ckptd.core.verification import file_digests, task_results
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.core.verification.task_results import PieceVerdict


@dataclass
class JobAgent:
    """Answers about verification jobs itself, and leaves everything else to the real agent.

    Digests are those of the real files.
    """

    inner: object
    tickets: object
    verdict: CheckpointState | None = None  # what the jobs say of each file; None: they wait in the queue
    refusal: str | None = None
    submitted: list = field(default_factory=list)

    def run(self, batches):
        return [
            [self._answer(batch.operation, item) for item in batch.items]
            if batch.operation.endswith(("_verification", "_digests"))
            else self.inner.run([batch])[0]
            for batch in batches
        ]

    def _answer(self, operation, item):
        if operation in {"submit_verification", "submit_digests"}:
            self.submitted.append(item["ticket"])
            if self.refusal:
                return {"refused": self.refusal, "reason": SkipReason.NO_ALLOCATION.value}
            return {"job_id": 7}
        if operation == "follow_verification":
            is_done = self.verdict is not None
            states = [] if is_done else [[0, JobState.PENDING.value]]
            return {"job_id": 7, "states": states, "results": [0] if is_done else []}
        if operation == "collect_digests":
            found = [self._read_files(piece) for piece in self.tickets.read(item["ticket"]).pieces]
            return {"result": {"version": file_digests.VERSION, "task": 0, "checkpoints": found}}
        return self._give_result(item) if operation == "collect_verification" else {}

    def _read_files(self, piece):
        wanted = file_digests.list_wanted_files(piece)
        return digest({"directory": wanted.directory, "files": wanted.files, "allowed_roots": ["/"]})

    def _give_result(self, item):
        reason = None if self.verdict is CheckpointState.COMPLETE else "a block of zeros"
        pieces = [self._make_piece(piece, reason) for piece in self.tickets.read(item["ticket"]).pieces]
        return {"result": {"version": task_results.VERSION, "task": 0, "pieces": pieces}}

    def _make_piece(self, piece, reason):
        identities = tuple(tuple(each[1:]) for each in piece.identities)
        verdict = PieceVerdict(piece.path.name, piece.format, self.verdict, reason, piece.files, identities)
        return {**verdict._asdict(), "files": list(piece.files), "identities": [list(each) for each in identities]}

    def close(self):
        self.inner.close()
