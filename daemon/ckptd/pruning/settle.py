"""Finishes or undoes what was cut off, and gives every intent on record its outcome: before anything else is done."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from ckptd.checkpoints import disposal
from ckptd.checkpoints.disposal import Place
from ckptd.checkpoints.look import Agent
from ckptd.checkpoints.trash import EntryState, Outcome, Result
from ckptd.core.model import RunKey, Unknown
from ckptd.core.pruned import Cause
from ckptd.core.record import AuditEntry
from ckptd.pruning import acts
from ckptd.pruning.site import Site
from ckptd.store.store import Store

_GONE = {acts.PRUNE: Result.UNDONE, acts.EMPTY: Result.DELETED, acts.RESTORE: Result.RESTORED}

MAX_NOTES = 100  # of acts that nobody intended, in one go: whoever owns a trash can make up any number
_CHANGES = {(acts.PRUNE, Result.MOVED), (acts.RESTORE, Result.RESTORED)}


@dataclass(frozen=True, slots=True)
class Hands:
    """What every act is done with."""

    store: Store
    agent: Agent
    site: Site
    cluster: str


def settle(hands: Hands, runs: Collection[RunKey], now: datetime) -> set[RunKey]:
    """Recover the trashes of these runs and settle their open intents; return the runs of which doubt is left."""
    asked = set(runs)
    open_acts = {
        str(entry.details.get("act_id")): entry
        for entry in hands.store.read_audit(hands.cluster, unfinished_only=True, limit=acts.LIMIT)
        if entry.action in acts.ON_TRASH and entry.run in asked
    }
    places = disposal.places_of(runs)
    answers = dict(zip(places, disposal.recover(hands.agent, places, hands.site.deadline), strict=True))
    noted = 0
    for place, outcome in _list_changes(answers):
        entry = open_acts.get(outcome.act_id)
        if entry and entry.run and entry.run.uid == place.uid:  # anybody can write any id into a trash of their own
            finish(hands, open_acts.pop(outcome.act_id), outcome, now)
        elif noted < MAX_NOTES:
            noted += 1
            _note_recovery(hands, outcome, now)
    silent = {place for place, answer in answers.items() if not _is_mended(answer)}
    doubtful = {run for run in runs if silent.intersection(disposal.places_of([run]))}
    for act_id, entry in open_acts.items():
        if entry.run is not None and not (entry.run not in doubtful and _look_up(hands, act_id, entry, now)):
            doubtful.add(entry.run)
    return doubtful


def _list_changes(answers: Mapping[Place, tuple[Outcome, ...] | Unknown]) -> Iterator[tuple[Place, Outcome]]:
    """Yield what was finished or undone; what could be neither is looked up, and stays in doubt."""
    for place, answer in answers.items():
        for outcome in () if isinstance(answer, Unknown) else answer:
            if outcome.result not in {Result.REFUSED, Result.FAILED}:
                yield place, outcome


def _is_mended(answer: tuple[Outcome, ...] | Unknown) -> bool:
    """Whether a trash could be gone through: it was reached, and no other process was at work in it."""
    return not isinstance(answer, Unknown) and all(outcome.act_id for outcome in answer)


def _look_up(hands: Hands, act_id: str, entry: AuditEntry, now: datetime) -> bool:
    """Give an intent its outcome by what the trash shows; False where it does not tell."""
    assert entry.run is not None
    state = disposal.look_up(hands.agent, entry.run, act_id, hands.site.deadline)
    if isinstance(state, Unknown) or state in {EntryState.MOVING, EntryState.DELETING}:
        return False
    if state is None:
        result = _GONE[entry.action]
    elif entry.action == acts.PRUNE:
        result = Result.MOVED
    else:  # still in the trash: neither deleted nor brought back
        result = Result.UNDONE
    finish(
        hands,
        entry,
        Outcome(act_id=act_id, result=result, path=entry.target, reason="cut off", cause=Cause.CUT_OFF),
        now,
    )
    return True


def finish(hands: Hands, entry: AuditEntry, outcome: Outcome, now: datetime) -> None:
    """Record the outcome of an act, and what it means for the checkpoint that the act names."""
    entry = replace(entry, details={**entry.details, **acts.measure(outcome)})
    assert entry.audit_id is not None
    first_seen_at = entry.details.get("first_seen_at")
    if isinstance(first_seen_at, str) and (entry.action, outcome.result) in _CHANGES:
        ended = replace(entry, outcome=acts.tell(outcome), finished_at=now)
        is_pruned = entry.action == acts.PRUNE
        hands.store.finish_prune(ended, datetime.fromisoformat(first_seen_at), is_pruned=is_pruned)
    else:
        hands.store.finish_audit(entry.audit_id, acts.tell(outcome), now, entry.details)


def _note_recovery(hands: Hands, outcome: Outcome, now: datetime) -> None:
    """Record what was finished or undone though no open intent asked for it, as after a database was restored."""
    hands.store.append_audit(
        AuditEntry(
            cluster=hands.cluster,
            actor="recovery",
            action=acts.RECOVER,
            target=outcome.path,
            details={"act_id": outcome.act_id, **acts.measure(outcome)},
            begun_at=now,
            finished_at=now,
            outcome=acts.tell(outcome),
        )
    )
