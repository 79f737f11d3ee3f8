"""Words the file of no known format that flags name where ckptd cannot tell whether a job saves checkpoints."""

from ckptd.present.flag_texts.evidence_reader import EvidenceReader

_NAMES = ("unrecognised", "unrecognised_at", "unrecognised_bytes")
ADVICE = (
    "If these files are checkpoints, you need not do anything: ckptd counts no work as lost because of them. It "
    "records them as checkpoints if their names contain the word checkpoint, ckpt, restart or snapshot. If the job "
    "saves elsewhere, name that directory for later jobs: --comment=ckpt=PATH or `directory` in .ckptd.toml."
)


def describe(evidence: EvidenceReader) -> str | None:
    """Return the newest file with its size; None if the flag names none, as those of earlier versions."""
    is_recorded = any(evidence.is_recorded(name) for name in _NAMES)
    if not is_recorded or not evidence.has("unrecognised"):
        return None
    return f"the newest is {evidence.text('unrecognised')} ({evidence.size('unrecognised_bytes')})"
