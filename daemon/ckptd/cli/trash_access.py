"""Open the trashes that a command changes: with the database, or by their directories alone."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

import click

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.trash_client import TrashDeletion, TrashLocation
from ckptd.checkpoints.trash import ReleaseRule, TrashEntry, TrashOutcome
from ckptd.cli.retention_scope import RetentionScope
from ckptd.cli.trash_search import find_trashes
from ckptd.cli.trash_view import DEADLINE, TrashView, list_keys, start_trash_agent, view_trashes
from ckptd.cli.writable_scope import open_scope
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.service.command_lease import join_or_take_lease
from ckptd.steps.prune import audit_entries, unrecorded_trash
from ckptd.store.store import Store


class TrashAccess(NamedTuple):
    """The trashes, and the database if there is one."""

    view: TrashView
    store: Store | None
    cluster: str = ""

    @contextmanager
    def acting(self) -> Iterator["TrashAccess"]:
        """Yield this for a command that changes something: with a database, under the lease of the cluster."""
        if self.store is None:
            yield self
            return
        with join_or_take_lease(self.store, self.cluster, "trash") as store:
            yield self._replace(store=store)

    def restore(self, entry: TrashEntry) -> TrashOutcome | Unknown:
        """Move one entry back to where it was, and record the outcome."""
        intent = self._intend(audit_entries.RESTORE, entry)
        outcome = trash_client.restore(self.view.agent, _place(entry), entry.act_id, DEADLINE)
        return self._finish(intent, entry, outcome)

    def empty(self, entries: Sequence[TrashEntry]) -> Iterator[TrashOutcome | Unknown]:
        """Delete entries permanently, one by one; those not in the database share one audit row per trash."""
        recorded = self._read_recorded()
        strange: dict[TrashLocation, list[TrashEntry]] = {}
        for entry in entries:
            if self.store is None or entry.act_id in recorded:
                intent = self._intend(audit_entries.EMPTY, entry)
                yield self._finish(intent, entry, self._delete(entry))
            else:
                strange.setdefault(_place(entry), []).append(entry)
        for place, found in strange.items():
            yield from self._empty_strange(place, found)

    def _read_recorded(self) -> set[str]:
        if self.store is None:
            return set()
        return {
            act_id
            for moved in self.store.audit.read_moved_bytes(list(self.view.places.values())).values()
            for act_id in moved
        }

    def _empty_strange(self, place: TrashLocation, entries: Sequence[TrashEntry]) -> Iterator[TrashOutcome | Unknown]:
        assert self.store is not None
        act_ids = [entry.act_id for entry in entries]
        intent = unrecorded_trash.intend(self.view.places[place], place, act_ids, name_actor(), datetime.now(UTC))
        row = replace(intent, audit_id=self.store.audit.record(intent))
        found = [self._delete(entry) for entry in entries]
        outcomes = [outcome for outcome in found if not isinstance(outcome, Unknown)]
        unrecorded_trash.finish(self.store, row, outcomes, datetime.now(UTC))
        for entry, outcome in zip(entries, found, strict=True):
            yield self._finish(None, entry, outcome)

    def _delete(self, entry: TrashEntry) -> TrashOutcome | Unknown:
        held_before = datetime.now(UTC) + timedelta(days=365_000)  # independent of the clock that moved it
        deletion = TrashDeletion(_place(entry), [entry.act_id], ReleaseRule(held_before, None))
        (found,) = trash_client.empty(self.view.agent, [deletion], DEADLINE)
        return found if isinstance(found, Unknown) else found[0]

    def _intend(self, action: str, entry: TrashEntry) -> AuditEntry | None:
        if self.store is None:
            return None
        owned = (key for key in self.view.places.values() if key.uid == entry.uid)
        run = next(
            (key for key in owned if entry.path.startswith(f"{key.directory}/")), self.view.places[_place(entry)]
        )
        intent = audit_entries.intend(
            action, run, entry.path, act_id=entry.act_id, actor=name_actor(), now=datetime.now(UTC)
        )
        return replace(intent, audit_id=self.store.audit.record(intent))

    def _finish(
        self, intent: AuditEntry | None, entry: TrashEntry, outcome: TrashOutcome | Unknown
    ) -> TrashOutcome | Unknown:
        if isinstance(outcome, Unknown):
            return Unknown(what=entry.path, reason=outcome.reason)
        if self.store and intent and intent.audit_id is not None:
            details = {**intent.details, **audit_entries.measure(outcome)}
            self.store.audit.finish(intent.audit_id, audit_entries.format_outcome(outcome), datetime.now(UTC), details)
        return replace(outcome, path=entry.path)


@contextmanager
def open_access(context: click.Context, directories: Collection[str]) -> Iterator[TrashAccess]:
    """Open the trashes of these directories, without a database, or of all recorded runs that the user may see."""
    with ExitStack() as held:
        store, cluster = None, ""
        if directories:
            keys = list_keys(directories)
        else:
            scope = held.enter_context(open_scope(context))
            store, cluster, keys = scope.store, scope.cluster, _list_recorded(scope)
        agent = held.enter_context(start_trash_agent(context))
        view = view_trashes(context, agent, keys, is_recorded=store is not None)
        yield TrashAccess(view, store, cluster)


@contextmanager
def open_found(context: click.Context, directories: Sequence[str]) -> Iterator[tuple[TrashAccess, list[Unknown]]]:
    """Open the database and all trashes in and below these directories.

    Without directories, search below the site's allowed roots, and add the trashes of the recorded runs.
    """
    with open_scope(context) as scope:
        roots = [str(root) for root in scope.site.allowed_roots if root != PurePosixPath("/")]
        found = find_trashes(directories or roots)
        problems = list(found.problems)
        if not directories and not roots:
            reason = "scan.allowed_roots allows every directory: name the directories to search"
            problems.append(Unknown(what="/", reason=reason))
        with start_trash_agent(context) as agent:
            view = view_trashes(context, agent, [] if directories else _list_recorded(scope), is_recorded=True)
            for place in found.places:
                view.places.setdefault(place, RunKey(scope.cluster, place.uid, str(place.path.parent)))
            yield TrashAccess(view, scope.store, scope.cluster), problems


def _list_recorded(scope: RetentionScope[Store]) -> list[RunKey]:
    keys = scope.store.runs.list_keys() if scope.keys is None else scope.keys
    return [key for key in keys if key.cluster == scope.cluster]


def name_actor() -> str:
    return f"{audit_entries.PERSON}{os.getuid()}"


def _place(entry: TrashEntry) -> TrashLocation:
    return TrashLocation(entry.uid, entry.place)
