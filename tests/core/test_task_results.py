"""Result files of verification jobs: what ckptd's own program writes is read, and everything else is refused."""

import json
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from ckptd.core.model import CheckpointState, Level
from ckptd.core.verification import task_results
from ckptd.core.verification.task_results import PieceVerdict, ResultError
from support.queue_facts import RUN, make_checkpoint

DIRECTORY = PurePosixPath(RUN.directory)
PIECE = {
    "path": "epoch_1.pt",
    "format": "torch",
    "state": "complete",
    "reason": None,
    "files": ["epoch_1.pt"],
    "identities": [[5, 10, 3, 4]],
}


def make_document(*pieces, **changes):
    return {"version": 1, "task": 0, "pieces": list(pieces or [PIECE]), **changes}


def parse(document, task=0):
    return task_results.parse_result(json.dumps(document).encode(), task)


def test_what_a_task_writes_is_read_as_it_was_written():
    whole = replace(make_checkpoint("caf\udce9.pt"), level=Level.FULL)
    verdict = task_results.judge_piece(whole, DIRECTORY)
    assert verdict.state is CheckpointState.COMPLETE
    assert task_results.parse_result(task_results.encode_result(3, [verdict]), 3) == (verdict,)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"level": Level.FULL}, CheckpointState.COMPLETE),
        ({"level": Level.STRUCTURE}, CheckpointState.UNKNOWN),
        ({"level": Level.FULL, "state": CheckpointState.DAMAGED, "reason": "x"}, CheckpointState.DAMAGED),
        ({"level": Level.FULL, "state": CheckpointState.WRITING}, CheckpointState.UNKNOWN),
    ],
)
def test_complete_is_said_only_of_what_was_read_whole(changes, state):
    assert task_results.judge_piece(make_checkpoint(**changes), DIRECTORY).state is state


HOSTILE = {
    "not JSON": b"{",
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "an endless number": b'{"version":' + b"9" * 5000 + b',"task":0,"pieces":[]}',
    "not a number": b'{"version":NaN,"task":0,"pieces":[]}',
    "a fraction": b'{"version":1.0,"task":0,"pieces":[]}',
    "a name twice": b'{"version":1,"version":1,"task":0,"pieces":[]}',
    **{
        name: json.dumps(document).encode()
        for name, document in {
            "a list": [],
            "another version": make_document(version=2),
            "a version that is true": make_document(version=True),
            "another task": make_document(task=1),
            "a further field": make_document(now=3),
            "no pieces": {"version": 1, "task": 0},
            "pieces by name": make_document(pieces={}),
            "a piece that is text": make_document("epoch_1.pt"),
            "a further field of a piece": make_document({**PIECE, "level": "full"}),
            "a piece without a state": make_document({key: PIECE[key] for key in PIECE if key != "state"}),
            "a state of a scan": make_document({**PIECE, "state": "writing"}),
            "a state that is a list": make_document({**PIECE, "state": ["complete"]}),
            "an absolute path": make_document({**PIECE, "path": "/etc/shadow"}),
            "a path that climbs": make_document({**PIECE, "path": "a/../../b"}),
            "the directory itself": make_document({**PIECE, "path": "."}),
            "an empty path": make_document({**PIECE, "path": ""}),
            "a path that ends early": make_document({**PIECE, "path": "a\0b"}),
            "a long path": make_document({**PIECE, "path": "a" * 4097}),
            "a file elsewhere": make_document({**PIECE, "files": ["../epoch_1.pt"]}),
            "a long reason": make_document({**PIECE, "reason": "x" * 501}),
            "a reason that is a number": make_document({**PIECE, "reason": 4}),
            "fewer identities than files": make_document({**PIECE, "identities": []}),
            "an identity with a device": make_document({**PIECE, "identities": [[1, 5, 10, 3, 4]]}),
            "an identity below 64 bits": make_document({**PIECE, "identities": [[5, 10, -(2**63) - 1, 4]]}),
            "an identity that is true": make_document({**PIECE, "identities": [[True, 10, 3, 4]]}),
            "an identity beyond 64 bits": make_document({**PIECE, "identities": [[2**64, 10, 3, 4]]}),
            "a piece twice": make_document(PIECE, PIECE),
            "two verdicts on a piece": make_document(PIECE, {**PIECE, "state": "damaged"}),
        }.items()
    },
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_differs_from_the_schema_is_refused_whole(data):
    with pytest.raises(ResultError):
        task_results.parse_result(data, 0)


def test_a_file_that_is_too_large_is_refused_whole():
    spaces = b" " * (task_results.MAX_BYTES + 1 - len(b"[]"))
    with pytest.raises(ResultError, match="large"):
        task_results.parse_result(b"[]" + spaces, 0)


def make_verdict(piece, **changes):
    verdict = task_results.judge_piece(replace(piece, level=Level.FULL), DIRECTORY)
    return verdict._replace(**changes)


def test_a_verdict_on_the_recorded_files_has_their_identities():
    piece = make_checkpoint()
    (found,) = task_results.apply_verdicts([piece], [make_verdict(piece)], DIRECTORY)
    assert (found.identities, found.state, found.level) == (piece.identities, CheckpointState.COMPLETE, Level.FULL)


@pytest.mark.parametrize("changes", [{"identities": ((9, 10, 3, 4),)}, {"files": ("other.pt",)}, {"identities": ()}])
def test_a_verdict_on_other_files_never_has_the_recorded_identities(changes):
    piece = make_checkpoint()
    (found,) = task_results.apply_verdicts([piece], [make_verdict(piece, **changes)], DIRECTORY)
    assert found.identities != piece.identities


def test_verdicts_on_what_was_not_requested_are_discarded():
    piece, other = make_checkpoint("a.pt"), make_checkpoint("b.pt")
    verdicts = [make_verdict(other), make_verdict(piece, format="generic")]
    assert task_results.apply_verdicts([piece], verdicts, DIRECTORY) == ()


def test_inodes_of_64_bits_and_times_before_1970_are_read():
    (verdict,) = parse(make_document({**PIECE, "identities": [[2**64 - 1, 10, -5, 4]]}))
    assert verdict.identities == ((2**64 - 1, 10, -5, 4),)


def test_a_document_without_faults_is_read():
    assert parse(make_document()) == (
        PieceVerdict("epoch_1.pt", "torch", CheckpointState.COMPLETE, None, ("epoch_1.pt",), ((5, 10, 3, 4),)),
    )
