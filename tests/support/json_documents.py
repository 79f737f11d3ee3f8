"""Checks JSON documents against the types that describe them: no field may be missing, unknown or of another type."""

import functools
import json

from pydantic import ConfigDict, TypeAdapter

from ckptd.present.responses import (
    api_documents,
    doctor_documents,
    inspect_documents,
    job_documents,
    lost_work_documents,
    retention_documents,
    run_documents,
    status_documents,
    verify_documents,
)

OF_COMMANDS = {
    "advise": run_documents.AdviseDocument,
    "doctor": doctor_documents.DoctorDocument,
    "flags": job_documents.FlagListDocument,
    "inspect": inspect_documents.InspectDocument,
    "jobs": job_documents.JobListDocument,
    "newest": inspect_documents.NewestDocument,
    "once": status_documents.OnceDocument,
    "plan": retention_documents.PlanDocument,
    "prune": retention_documents.PruneDocument,
    "report": lost_work_documents.LostWorkReportDocument,
    "show": run_documents.ShowDocument,
    "status": status_documents.StateDocument,
    "trash list": retention_documents.TrashListDocument,
    "trash scan": retention_documents.TrashScanDocument,
    "verify": verify_documents.VerifyDocument,
}
OF_API = {  # by the first words of the path below /api/v1, longest first
    "/jobs/": api_documents.RunsDocument,
    "/users/": api_documents.UserDocument,
    "/lost-work": lost_work_documents.LostWorkReportDocument,
    "/status": api_documents.StatusDocument,
    "/flags": api_documents.FlagsDocument,
    "/jobs": api_documents.JobsDocument,
    "/runs": api_documents.RunRowsDocument,
    "/run": run_documents.RunDocument,
}


@functools.cache
def _adapter(kind):
    # a type of the configuration's own: typed dictionaries take none
    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid", strict=True))


def check_document(kind, text):
    """Validate the JSON text of one document.

    Raises:
        pydantic.ValidationError: it is not exactly what its type says.

    """
    whole = json.dumps([json.loads(text)], ensure_ascii=False)
    _adapter(kind).validate_json(whole.encode("utf-8", "replace"))  # names may hold bytes that are not UTF-8


def check_command(words, text):
    """Validate what a command printed with --json; `words` are its arguments."""
    check_document(OF_COMMANDS[name_command(words)], text)


def name_command(words):
    """Return the command among the arguments: `jobs`, `trash list`."""
    names = {name for command in OF_COMMANDS for name in command.split()}
    words = [str(word) for word in words]
    if "--config" in words:
        place = words.index("--config")
        words = words[:place] + words[place + 2 :]
    return " ".join(word for word in words[:2] if word in names and not (word != words[0] and words[0] != "trash"))


def check_answer(path, text):
    """Validate an answer of the API with status 200."""
    below = path.removeprefix("/api/v1")
    check_document(next(kind for start, kind in OF_API.items() if below.startswith(start)), text)
