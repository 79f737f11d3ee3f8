"""The one place where tests build the records and histories of runs; other builders of tests only choose the facts."""

from dataclasses import fields, replace

from ckptd.core.model import RunContext, RunHistory, RunRecord, SitePurge

IN_CONTEXT = frozenset(each.name for each in fields(RunContext))
RECORD = {
    "user": "alice",
    "located_by": "comment",
    "jobs": (),
    "attempts": (),
    "checkpoints": (),
    "polled_at": None,
    "scan": None,
}
CONTEXT = {
    "is_named_by_script": False,
    "is_preempted_there": False,
    "interruptions": None,
    "maintenance": (),
    "holds": {},
    "signals": {},
    "signalled": {},
    "standing": None,
    "resubmitted": {},
    "flagged": frozenset(),
    "open_evidence": {},
    "purge": SitePurge(),
}


def make_record(key, **facts) -> RunRecord:
    """Return what a store might know of a run, of which it knows least unless told otherwise."""
    return RunRecord(key=key, **{**RECORD, **facts})


def make_context(**facts) -> RunContext:
    """Return what a daemon might know of a run: that nothing is the matter, unless told otherwise."""
    return RunContext(**{**CONTEXT, **facts})


def make_history(key, **facts) -> RunHistory:
    """Return what a rule might be asked about; each fact goes where it belongs, to the record or to the context."""
    known = {name: value for name, value in facts.items() if name not in IN_CONTEXT}
    context = make_context(**{name: value for name, value in facts.items() if name in IN_CONTEXT})
    return RunHistory.join(make_record(key, **known), context)


def change(history, **facts) -> RunHistory:
    """Return a history with some facts of its record or its context replaced."""
    context = replace(history.context, **{name: value for name, value in facts.items() if name in IN_CONTEXT})
    known = {name: value for name, value in facts.items() if name not in IN_CONTEXT}
    return replace(history, context=context, **known)
