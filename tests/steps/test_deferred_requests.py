"""Steps that must ask Slurm later about a job take that for no answer, and ask again."""

from dataclasses import replace

from ckptd.core.discovery import path_mentions
from ckptd.core.model import Unknown
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.steps import read_scripts, record_mentions
from ckptd.steps.snapshots import QueuedMentions
from steps.replayed_fleet import UID, minute

DEFERRED = Unknown(what="batch script", reason=f"{FailureReason.DEFERRED}: too many")
SCRIPT = "#!/bin/bash\n#SBATCH --signal=B:USR1@300\npython train.py --checkpoint-dir out\n"


class Scripts:
    """Answers after it deferred a number of requests."""

    def __init__(self, fleet, deferred_count):
        self.left, self.count = deferred_count, 0
        fleet.source.read_batch_script = self.read
        fleet.parts = replace(fleet.parts, reads_batch_scripts=True)

    def read(self, job, *, is_urgent=False):
        self.count += 1
        if self.left:
            self.left -= 1
            return DEFERRED
        return SCRIPT


def test_a_search_waits_for_the_script_instead_of_settling_for_another_directory(fleet):
    scripts = Scripts(fleet, 2)
    fleet.save("elsewhere/step_1.safetensors", 1)
    fleet.save("out/step_5.safetensors", 1)
    fleet.run(2, fleet.job())
    assert fleet.state.watchlist.list_unsearched(UID)
    fleet.run(3, fleet.job())
    fleet.run(4, fleet.job())
    assert scripts.count == 3
    (row,) = fleet.parts.store.jobs.list_open(minute(4))
    assert (row.directory, row.located_by) == (str(fleet.work_dir / "out"), "batch-script")


def test_a_script_that_is_deferred_often_is_still_awaited(fleet):
    scripts = Scripts(fleet, 100)
    fleet.run(1, fleet.job())
    for _ in range(2 * record_mentions.MAX_TRIES):
        record_mentions.read_scripts(fleet.parts, fleet.state, {UID}, 20)
    assert fleet.state.latest(QueuedMentions).by_job[1].is_script_awaited
    scripts.left = 0
    record_mentions.read_scripts(fleet.parts, fleet.state, {UID}, 20)
    mentions = fleet.state.latest(QueuedMentions).by_job[1]
    assert not mentions.is_script_awaited
    assert mentions.script_mentions == path_mentions.list_script_mentions(SCRIPT, fleet.job())


def test_the_signal_of_a_job_is_not_taken_for_none_while_its_script_is_deferred(fleet):
    Scripts(fleet, 3)
    fleet.run(1, fleet.job())
    read_scripts.read_signals(fleet.parts, fleet.state, [1])
    assert read_scripts.known_signals(fleet.state) == {}
    fleet.source.read_batch_script = lambda job, *, is_urgent: SCRIPT
    read_scripts.read_signals(fleet.parts, fleet.state, [1])
    assert read_scripts.known_signals(fleet.state)[1] is not None
