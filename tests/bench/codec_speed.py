"""Processor seconds of the hand-written wire codecs and of pydantic's adapters: `python tests/bench/codec_speed.py`.

Each line is the best of some runs over an answer of 10,000 values (--count). The last line is the memory of a process
that has loaded what the agent loads, without and with pydantic. docs/decisions/0011 rests on these figures.
"""

import argparse
import gc
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, get_type_hints

sys.path.insert(0, str(Path(__file__).parent.parent))

from pydantic import AfterValidator, PlainValidator, TypeAdapter
from typing_extensions import TypedDict

from ckptd.checkpoints.trash import TrashOutcome, TrashResult
from ckptd.checkpoints.trash.trash_operations import decode_outcome, encode_outcome
from ckptd.core.model import Checkpoint, FileIdentity, Grouping, Role
from ckptd.core.model.checkpoint_json import decode_checkpoint, encode_checkpoint
from support.queue_facts import make_checkpoint

MEMORY = """
from ckptd.checkpoints.agent import agent_operations
agent_operations.preload()
{more}
[line] = [line for line in open("/proc/self/status") if line.startswith("VmRSS:")]
print(int(line.split()[1]) // 1024)
"""
WITH_PYDANTIC = "import pydantic; from ckptd.core.model import Scan; pydantic.TypeAdapter(Scan)"


def make_checkpoints(count):
    for number in range(count):
        yield make_checkpoint(
            f"checkpoints/step_{number}.pt",
            epoch=number // 100,
            step=number,
            identities=(FileIdentity(1, number, 10, 10**18 + number, 10**18 + number),),
            owner_uids=frozenset({1000}),
            modified_at=datetime.fromtimestamp(1_700_000_000 + number, UTC),
            metrics={"loss": 0.5},
            role=Role.STATE,
            role_evidence="an optimizer",
            grouping=Grouping(series="step_#.pt", progress=(number,), evidence="the word `step`"),
        )


def make_outcomes(count):
    for number in range(count):
        yield TrashOutcome(
            act_id=f"act-{number}",
            result=TrashResult.MOVED,
            path=f"/scratch/{number}",
            reason=None,
            cause=None,
            size_bytes=9,
        )


def make_strict_adapter():
    """Return an adapter as strict as `decode_checkpoint`: no field may be missing, whole epochs stay whole."""
    fields = get_type_hints(Checkpoint)
    numbers = ("epoch", "name_epoch", "goal_epoch", "content_epoch")
    fields |= dict.fromkeys(numbers, int | float | None)
    fields["modified_at"] = Annotated[
        datetime, PlainValidator(lambda seconds: datetime.fromtimestamp(float(seconds), UTC))
    ]
    fields["parts"] = "tuple[WireCheckpoint, ...]"
    wire = TypedDict("wire", fields)
    globals()["WireCheckpoint"] = built = Annotated[wire, AfterValidator(lambda values: Checkpoint(**values))]
    return TypeAdapter(list[built])


def measure(work, times):
    took = []
    for _ in range(times):
        gc.collect()
        before = time.process_time()
        work()
        took.append(time.process_time() - before)
    return min(took)


def compare(name, by_hand, adapters, times):
    hand = measure(by_hand, times)
    print(f"{name:<24} by hand {hand:6.3f} s", end="")
    for label, work in adapters.items():
        took = measure(work, times)
        print(f"; {label} {took:6.3f} s ({took / hand:.2f} x)", end="")
    print()


def read_memory(more):
    done = subprocess.run([sys.executable, "-c", MEMORY.format(more=more)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    checkpoints = list(make_checkpoints(options.count))
    plain = [encode_checkpoint(each) for each in checkpoints]
    lax, strict = TypeAdapter(list[Checkpoint]), make_strict_adapter()
    assert lax.validate_python(plain) == strict.validate_python(plain) == checkpoints
    compare(
        "checkpoints, decoded",
        lambda: [decode_checkpoint(each) for each in plain],
        {
            "adapter": lambda: lax.validate_python(plain),
            "as strict an adapter": lambda: strict.validate_python(plain),
        },
        options.times,
    )
    compare(
        "checkpoints, encoded",
        lambda: [encode_checkpoint(each) for each in checkpoints],
        {"adapter": lambda: lax.dump_python(checkpoints, mode="json")},
        options.times,
    )
    outcomes = list(make_outcomes(options.count))
    told, adapter = [encode_outcome(each) for each in outcomes], TypeAdapter(list[TrashOutcome])
    assert adapter.validate_python(told) == outcomes
    compare(
        "outcomes, decoded",
        lambda: [decode_outcome(each) for each in told],
        {"adapter": lambda: adapter.validate_python(told)},
        options.times,
    )
    compare(
        "outcomes, encoded",
        lambda: [encode_outcome(each) for each in outcomes],
        {"adapter": lambda: adapter.dump_python(outcomes, mode="json")},
        options.times,
    )
    print(f"agent's memory: {read_memory('')} MiB, with pydantic {read_memory(WITH_PYDANTIC)} MiB")


if __name__ == "__main__":
    main()
