"""Completes or undoes interrupted operations, and records the outcome of every intent, before anything else."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.agent.trash_client import TrashLocation, TrashRequest
from ckptd.checkpoints.trash import WHOLE, EntryRecovery, EntryState, TrashOutcome, TrashResult, TurnLimits
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.steps.prune import audit_entries, owner_turns
from ckptd.steps.prune.silent_users import SilentUsers
from ckptd.steps.site_policy import SitePolicy
from ckptd.store.store import Store

_GONE = {
    audit_entries.PRUNE: TrashResult.UNDONE,
    audit_entries.EMPTY: TrashResult.DELETED,
    audit_entries.RESTORE: TrashResult.RESTORED,
}

PLACE_LIMIT = 5000  # names of one trash in one turn, beside the acts that are open on record
USER_SECONDS = 5.0  # of all trashes of one user in one turn, shared among them
PLACE_SECONDS = 0.01  # of one trash at least
_CHANGES = {(audit_entries.PRUNE, TrashResult.MOVED), (audit_entries.RESTORE, TrashResult.RESTORED)}
MAX_NAMED = 10  # paths that the audit's row names


@dataclass(frozen=True, slots=True)
class PruneParts:
    """The objects that every operation on the trash needs."""

    store: Store
    agent: BatchRunner
    site: SitePolicy
    cluster: str
    should_stop: Callable[[], bool] = lambda: False  # asked before each act that no other one needs
    silent: SilentUsers = field(default_factory=SilentUsers)


class UnrecoveredRuns(NamedTuple):
    """The runs with an unknown outcome, and those whose trashes were not processed to the end yet."""

    doubtful: set[RunKey]
    unfinished: set[RunKey]


def recover_runs(hands: PruneParts, runs: Collection[RunKey], now: datetime) -> set[RunKey]:
    """Recover the trashes of these runs and their open intents; return the runs whose outcome is still unknown."""
    return recover_turn(hands, runs, now, None).doubtful


def recover_turn(
    hands: PruneParts, runs: Collection[RunKey], now: datetime, reached: MutableMapping[TrashLocation, str] | None
) -> UnrecoveredRuns:
    """Recover the open intents of these runs, and process one more turn of each trash, from `reached` on.

    Recorded intents come first. Other entries of a trash delay only the runs of its owner.
    """
    open_acts = _read_open(hands, set(runs), now)
    asked = _ask(runs, open_acts, reached)
    found = owner_turns.ask(asked, lambda part: trash_client.recover(hands.agent, part, hands.site.deadline))
    answers = dict(zip([each.place for each in asked], found, strict=True))
    strange: dict[int, list[TrashOutcome]] = defaultdict(list)
    for place, outcome in _list_changes(answers):
        entry = open_acts.get(outcome.act_id)
        if entry and entry.run and entry.run.uid == place.uid:  # anybody can write any id into a trash of their own
            finish(hands, open_acts.pop(outcome.act_id), outcome, now)
        else:
            strange[place.uid].append(outcome)
    for outcomes in strange.values():
        _record_recoveries(hands, outcomes, now)
    silent = {place for place, answer in answers.items() if not _is_mended(answer)}
    doubtful = {run for run in runs if silent.intersection(trash_client.places_of([run]))}
    for act_id, entry in open_acts.items():
        if entry.run is not None and not (
            entry.run not in doubtful
            and not hands.silent.is_left_out(entry.run.uid, now)
            and _find_outcome(hands, act_id, entry, now)
        ):
            doubtful.add(entry.run)
    left = _record_reached(answers, reached)
    return UnrecoveredRuns(doubtful, {run for run in runs if left.intersection(trash_client.places_of([run]))})


def _read_open(hands: PruneParts, runs: Collection[RunKey], now: datetime) -> dict[str, AuditEntry]:
    """Return the open intents of these runs by action id, without the entries that sum up many deletions."""
    found = {}
    for entry in hands.store.audit.list_newest(hands.cluster, unfinished_only=True, limit=audit_entries.LIMIT):
        if entry.run in runs and entry.action in audit_entries.ON_TRASH:
            found[str(entry.details.get("act_id"))] = entry
        elif entry.run in runs and entry.action == audit_entries.SWEEP and entry.audit_id is not None:
            hands.store.audit.finish(entry.audit_id, "unknown: cut off", now)
    return found


def _ask(
    runs: Collection[RunKey], open_acts: Mapping[str, AuditEntry], reached: Mapping[TrashLocation, str] | None
) -> list[TrashRequest]:
    wanted: dict[TrashLocation, set[str]] = {place: set() for place in trash_client.places_of(runs)}
    users: dict[int, int] = defaultdict(int)
    for place in wanted:
        users[place.uid] += 1
    for act_id, entry in open_acts.items():
        for place in trash_client.places_of([entry.run] if entry.run else []):
            wanted[place].add(act_id)
    return [
        TrashRequest(
            place,
            sorted(act_ids),
            WHOLE if reached is None else _turn(reached.get(place, ""), users[place.uid]),
        )
        for place, act_ids in wanted.items()
    ]


def _turn(after: str, place_count: int) -> TurnLimits:
    return TurnLimits(after, PLACE_LIMIT, max(USER_SECONDS / place_count, PLACE_SECONDS))


def _record_reached(
    answers: Mapping[TrashLocation, EntryRecovery | Unknown], reached: MutableMapping[TrashLocation, str] | None
) -> set[TrashLocation]:
    """Note how far each trash was processed; return those that were not processed to the end."""
    found = {place: answer.reached for place, answer in answers.items() if isinstance(answer, EntryRecovery)}
    left = {place: name for place, name in found.items() if name is not None}
    if reached is not None:
        for place in found:
            reached.pop(place, None)
        reached.update(left)
    return set(left)


def _list_changes(
    answers: Mapping[TrashLocation, EntryRecovery | Unknown],
) -> Iterator[tuple[TrashLocation, TrashOutcome]]:
    """Yield what was completed or undone. Look up the others; their outcome may stay unknown."""
    for place, answer in answers.items():
        for outcome in () if isinstance(answer, Unknown) else answer.outcomes:
            if outcome.result not in {TrashResult.REFUSED, TrashResult.FAILED}:
                yield place, outcome


def _is_mended(answer: EntryRecovery | Unknown) -> bool:
    """Whether a trash could be processed: it was accessible, and no other process was using it."""
    return not isinstance(answer, Unknown) and all(outcome.act_id for outcome in answer.outcomes)


def _find_outcome(hands: PruneParts, act_id: str, entry: AuditEntry, now: datetime) -> bool:
    """Record an intent's outcome from the state of the trash; False if that does not show it."""
    assert entry.run is not None
    state = trash_client.look_up(hands.agent, entry.run, act_id, hands.site.deadline)
    if isinstance(state, Unknown) or state in {EntryState.MOVING, EntryState.DELETING}:
        return False
    if state is None:
        result = _GONE[entry.action]
    elif entry.action == audit_entries.PRUNE:
        result = TrashResult.MOVED
    else:  # still in the trash: neither deleted nor brought back
        result = TrashResult.UNDONE
    finish(
        hands,
        entry,
        TrashOutcome(act_id=act_id, result=result, path=entry.target, reason="cut off", cause=FailureCause.CUT_OFF),
        now,
    )
    return True


def finish(hands: PruneParts, entry: AuditEntry, outcome: TrashOutcome, now: datetime) -> None:
    """Record the outcome of an operation, and its effect on the checkpoint."""
    entry = replace(entry, details={**entry.details, **audit_entries.measure(outcome)})
    assert entry.audit_id is not None
    first_seen_at = entry.details.get("first_seen_at")
    if isinstance(first_seen_at, str) and (entry.action, outcome.result) in _CHANGES:
        ended = replace(entry, outcome=audit_entries.format_outcome(outcome), finished_at=now)
        is_pruned = entry.action == audit_entries.PRUNE
        hands.store.prune_records.finish(ended, datetime.fromisoformat(first_seen_at), is_pruned=is_pruned)
    else:
        hands.store.audit.finish(entry.audit_id, audit_entries.format_outcome(outcome), now, entry.details)


def _record_recoveries(hands: PruneParts, outcomes: Collection[TrashOutcome], now: datetime) -> None:
    """Record in one row what was completed or undone in one user's trash without an open intent.

    This happens after a database was restored. A trash's owner can also forge any number of such entries.
    """
    first = next(iter(outcomes))
    paths = [outcome.path for outcome in outcomes if outcome.path]
    is_one = len(outcomes) == 1
    counts = sorted((result, sum(each.result is result for each in outcomes)) for result in TrashResult)
    hands.store.audit.record(
        AuditEntry(
            cluster=hands.cluster,
            actor="recovery",
            action=audit_entries.RECOVER,
            target=first.path if is_one else f"{len(outcomes)} {audit_entries.UNRECORDED}",
            details={"act_id": first.act_id, **audit_entries.measure(first)}
            if is_one
            else {"paths": paths[:MAX_NAMED]},
            begun_at=now,
            finished_at=now,
            outcome=audit_entries.format_outcome(first)
            if is_one
            else ", ".join(f"{count} {result}" for result, count in counts if count),
        )
    )
