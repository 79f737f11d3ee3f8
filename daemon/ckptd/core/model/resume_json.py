"""What an attempt resumed from as JSON, for the database."""

from datetime import datetime
from typing import Any

from ckptd.core.model.resumes import Certainty, CheckpointRead, Resume, ResumeCandidate, ResumeReason

CANDIDATE_COUNT = 64  # newest ones that are recorded; retention finds older ones itself


def encode_resume(resume: Resume) -> dict[str, Any]:
    reads = [[path, checked.isoformat(), read and read.isoformat()] for path, checked, read in resume.reads]
    rare = {"reads": reads, "equals": list(resume.equals[:CANDIDATE_COUNT])}
    return {name: value for name, value in rare.items() if value} | {
        "certainty": resume.certainty.value,
        "reason": resume.reason.value,
        "path": resume.path,
        "saved_at": resume.saved_at and resume.saved_at.isoformat(),
        "evidence": dict(resume.evidence),
        "candidates": [[each.path, each.saved_at.isoformat()] for each in resume.candidates[-CANDIDATE_COUNT:]],
        "may_be_fresh": resume.may_be_fresh,
    }


def decode_resume(found: dict[str, Any]) -> Resume:
    return Resume(
        certainty=Certainty(found["certainty"]),
        reason=ResumeReason(found["reason"]),
        path=found["path"],
        saved_at=None if found["saved_at"] is None else datetime.fromisoformat(found["saved_at"]),
        evidence=found["evidence"],
        candidates=tuple(ResumeCandidate(path, datetime.fromisoformat(at)) for path, at in found["candidates"]),
        may_be_fresh=found["may_be_fresh"],
        reads=tuple(
            CheckpointRead(
                path, datetime.fromisoformat(checked), None if read is None else datetime.fromisoformat(read)
            )
            for path, checked, read in found.get("reads", ())
        ),
        equals=tuple(found.get("equals", ())),
    )
