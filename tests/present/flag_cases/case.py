"""One case of a flag's text: evidence as its rule records it, and the exact words."""

from typing import NamedTuple

DIRECTORY = "/scratch/alice/run"
UNRECOGNISED = {
    "unrecognised": f"{DIRECTORY}/photos/x100",
    "unrecognised_bytes": 3072,
    "unrecognised_at": "2026-03-01T12:50:00+00:00",
}
UNRECOGNISED_ADVICE = (
    "If these files are checkpoints, you need not do anything: ckptd counts no work as lost because of them. It records "
    "them as checkpoints if their names contain the word checkpoint, ckpt, restart or snapshot. If the job saves "
    "elsewhere, name that directory for later jobs: --comment=ckpt=PATH or `directory` in .ckptd.toml."
)


class Case(NamedTuple):
    rule: str
    evidence: dict
    statement: str
    advice: str
    command: str | None = None
