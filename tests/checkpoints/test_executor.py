"""Full verifications through an executor: their tickets, and which results are kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from ckptd.checkpoints.agent.client import Answer, Batch
from ckptd.checkpoints.executor import LocalExecutor, TicketState, VerificationRequest
from ckptd.core.model import Checkpoint, Level, RunKey, Unknown, checkpoint_json
from support.queue_facts import at, make_checkpoint

DEADLINE = timedelta(minutes=7)


@dataclass
class RecordedAgent:
    """Answers each item with the same checkpoints, and keeps what it was sent."""

    found: tuple[Checkpoint, ...] | Unknown
    batches: list[Batch] = field(default_factory=list)

    def run(self, batches: Sequence[Batch]) -> list[list[Answer]]:
        self.batches.extend(batches)
        return [[self._answer() for _ in batch.items] for batch in batches]

    def _answer(self) -> Answer:
        if isinstance(self.found, Unknown):
            return self.found
        return {"checkpoints": [checkpoint_json.encode_checkpoint(each) for each in self.found]}


def make_request(*checkpoints):
    directory = str(checkpoints[0].path.parent)
    return VerificationRequest(RunKey("alpha", 1234, directory), checkpoints, at(3))


def read_whole(checkpoint):
    return replace(checkpoint, level=Level.FULL)


def test_a_request_is_carried_out_as_the_owner_when_its_result_is_collected():
    known = make_checkpoint("epoch_1")
    agent = RecordedAgent((read_whole(known),))
    executor = LocalExecutor(agent, DEADLINE)
    ticket = executor.submit(make_request(known))
    assert (executor.follow(ticket).state, agent.batches) == (TicketState.READY, [])
    (result,) = executor.collect(ticket)
    assert (result.path, result.level) == (known.path, Level.FULL)
    (batch,) = agent.batches
    assert (batch.uid, batch.operation, batch.deadline_seconds) == (1234, "verify", DEADLINE.total_seconds())
    assert batch.items[0]["only"] == [known.path.name]


def test_a_released_request_is_never_carried_out():
    known = make_checkpoint("epoch_1")
    agent = RecordedAgent((read_whole(known),))
    executor = LocalExecutor(agent, DEADLINE)
    first, second = executor.submit(make_request(known)), executor.submit(make_request(known))
    executor.release(first)
    assert isinstance(executor.collect(first), Unknown)
    assert agent.batches == []
    assert executor.follow(second).state is TicketState.READY


def test_a_result_about_a_file_that_was_not_requested_is_discarded():
    known, other = make_checkpoint("epoch_1"), make_checkpoint("epoch_2")
    executor = LocalExecutor(RecordedAgent((read_whole(known), read_whole(other))), DEADLINE)
    results = executor.collect(executor.submit(make_request(known)))
    assert [each.path for each in results] == [known.path]


def test_each_part_of_a_set_is_requested_and_has_its_own_result():
    first, second = make_checkpoint("rank_0"), make_checkpoint("rank_1")
    known = replace(first, files=first.files + second.files, parts=(first, second))
    agent = RecordedAgent((read_whole(first), read_whole(second)))
    executor = LocalExecutor(agent, DEADLINE)
    results = executor.collect(executor.submit(make_request(known)))
    assert [each.path for each in results] == [first.path, second.path]
    assert agent.batches[0].items[0]["only"] == ["rank_0", "rank_1"]


def test_what_the_agent_could_not_verify_is_unknown_with_its_reason():
    failed = Unknown(what="directory", reason="it did not answer within 420 s")
    executor = LocalExecutor(RecordedAgent(failed), DEADLINE)
    assert executor.collect(executor.submit(make_request(make_checkpoint("epoch_1")))) == failed
