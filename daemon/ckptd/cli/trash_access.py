"""Open the trashes that a command works on: with the database, or by their directories alone."""

import os
import pwd
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

import click

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.client import AgentClient
from ckptd.checkpoints.agent.trash_client import TrashDeletion, TrashLocation
from ckptd.checkpoints.trash import ReleaseRule, TrashEntry, TrashOutcome
from ckptd.cli.retention_scope import RetentionError
from ckptd.cli.trash_search import find_trashes
from ckptd.cli.writable_scope import open_scope
from ckptd.config import ConfigError, read_config
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.service.agent_start import start_agent
from ckptd.service.command_lease import join_or_take_lease
from ckptd.steps.prune import audit_entries, unrecorded_trash
from ckptd.store.store import Store

DEADLINE = timedelta(minutes=5)


class TrashAccess(NamedTuple):
    """The trashes, the database if there is one, and the site's hold."""

    agent: AgentClient
    places: dict[TrashLocation, RunKey]
    store: Store | None
    hold: timedelta | None
    cluster: str = ""

    @contextmanager
    def acting(self) -> Iterator["TrashAccess"]:
        """Yield this for a command that changes something: with a database, under the lease of the cluster."""
        if self.store is None:
            yield self
            return
        with join_or_take_lease(self.store, self.cluster, "trash") as store:
            yield self._replace(store=store)

    def find_end(self, entry: TrashEntry) -> datetime | None:
        """Return when an entry's hold ends: the later end of the site's and the manifest's hold; None if unknown."""
        if entry.origin.hold is None and self.hold is None:
            return None
        return max(entry.find_release(), entry.moved_at + (self.hold or timedelta(0)))

    def read(self, user: str | None = None, *, is_measured: bool = False) -> tuple[list[TrashEntry], list[Unknown]]:
        """Return the entries, oldest first, of one user or all, and the trashes that could not be read."""
        entries: dict[tuple[TrashLocation, str], TrashEntry] = {}
        problems: list[Unknown] = []
        places = [place for place in self.places if user is None or user_name(place.uid) == user]
        listed = trash_client.list_trash(self.agent, places, DEADLINE, is_measured=is_measured)
        for place, found in zip(places, listed, strict=True):
            if isinstance(found, Unknown):
                problems.append(Unknown(what=str(place.path), reason=found.reason))
                continue
            problems += found.problems
            # The owner is the directory's, because a user can write any uid into a manifest.
            own = (replace(each, uid=place.uid, run=each.run._replace(uid=place.uid)) for each in found.entries)
            entries |= {(place, entry.act_id): entry for entry in own}
        return sorted(entries.values(), key=lambda entry: (entry.moved_at, entry.path)), problems

    def choose(self, act_ids: Collection[str]) -> "list[TrashEntry]":
        """Return the entries with these ids.

        Raises:
            RetentionError: an id is in no trash, or in several.

        """
        chosen = []
        entries, _ = self.read()
        for act_id in dict.fromkeys(act_ids):
            known = [entry for entry in entries if entry.act_id == act_id]
            if not known:
                raise RetentionError(f"the trash has no entry {act_id!r}")
            if len(known) > 1:
                raise RetentionError(f"{act_id!r} is in several trashes: select one with --directory")
            chosen += known
        return chosen

    def restore(self, entry: TrashEntry) -> TrashOutcome | Unknown:
        """Move one entry back to where it was, and record the outcome."""
        intent = self._intend(audit_entries.RESTORE, entry)
        outcome = trash_client.restore(self.agent, _place(entry), entry.act_id, DEADLINE)
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
            for moved in self.store.audit.read_moved_bytes(list(self.places.values())).values()
            for act_id in moved
        }

    def _empty_strange(self, place: TrashLocation, entries: Sequence[TrashEntry]) -> Iterator[TrashOutcome | Unknown]:
        assert self.store is not None
        act_ids = [entry.act_id for entry in entries]
        intent = unrecorded_trash.intend(self.places[place], place, act_ids, name_actor(), datetime.now(UTC))
        row = replace(intent, audit_id=self.store.audit.record(intent))
        found = [self._delete(entry) for entry in entries]
        outcomes = [outcome for outcome in found if not isinstance(outcome, Unknown)]
        unrecorded_trash.finish(self.store, row, outcomes, datetime.now(UTC))
        for entry, outcome in zip(entries, found, strict=True):
            yield self._finish(None, entry, outcome)

    def _delete(self, entry: TrashEntry) -> TrashOutcome | Unknown:
        held_before = datetime.now(UTC) + timedelta(days=365_000)  # independent of the clock that moved it
        deletion = TrashDeletion(_place(entry), [entry.act_id], ReleaseRule(held_before, None))
        (found,) = trash_client.empty(self.agent, [deletion], DEADLINE)
        return found if isinstance(found, Unknown) else found[0]

    def _intend(self, action: str, entry: TrashEntry) -> AuditEntry | None:
        if self.store is None:
            return None
        owned = (key for key in self.places.values() if key.uid == entry.uid)
        run = next((key for key in owned if entry.path.startswith(f"{key.directory}/")), self.places[_place(entry)])
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
def open_bench(context: click.Context, directories: Collection[str]) -> Iterator[TrashAccess]:
    """Open the trashes of these directories, without a database, or of all recorded runs that the user may see."""
    with ExitStack() as held:
        store, cluster = None, ""
        if directories:
            keys = [_key_of(directory) for directory in directories]
        else:
            desk = held.enter_context(open_scope(context))
            store, cluster = desk.store, desk.cluster
            found = store.runs.list_keys() if desk.keys is None else desk.keys
            keys = [key for key in found if key.cluster == desk.cluster]
        agent = _start_agent(context)
        held.callback(agent.close)
        places = {place: key for key in keys for place in trash_client.places_of([key])}
        yield TrashAccess(agent, places, store, _read_hold(context), cluster)


@contextmanager
def open_whole_bench(context: click.Context, directories: Sequence[str]) -> Iterator[tuple[TrashAccess, list[Unknown]]]:
    """Open the database and all trashes in and below these directories.

    Without directories, search below the site's allowed roots, and add the trashes of the recorded runs.
    """
    with open_scope(context) as desk:
        keys = desk.store.runs.list_keys() if desk.keys is None else desk.keys
        known = [key for key in keys if key.cluster == desk.cluster]
        roots = [str(root) for root in desk.site.allowed_roots if root != PurePosixPath("/")]
        found = find_trashes(directories or roots)
        problems = list(found.problems)
        if not directories and not roots:
            reason = "scan.allowed_roots allows every directory: name the directories to search"
            problems.append(Unknown(what="/", reason=reason))
        places = {place: key for key in known for place in trash_client.places_of([key])} if not directories else {}
        for place in found.places:
            places.setdefault(place, RunKey(desk.cluster, place.uid, str(place.path.parent)))
        agent = _start_agent(context)
        try:
            yield TrashAccess(agent, places, desk.store, desk.site.hold, desk.cluster), problems
        finally:
            agent.close()


def _start_agent(context: click.Context) -> AgentClient:
    """Start an agent; a configuration with errors must not keep anybody from what is in the trash."""
    path = context.find_root().params.get("config")
    try:
        read_config(path, os.environ)
    except ConfigError:
        return start_agent(None, is_person=True, is_configured=False)
    return start_agent(path, is_person=True)


def _read_hold(context: click.Context) -> timedelta | None:
    """Return the configured hold; None if the configuration has errors, so that the trash stays usable."""
    try:
        return read_config(context.find_root().params.get("config"), os.environ).retention.hold
    except ConfigError:
        return None


def _key_of(directory: str) -> RunKey:
    path = os.path.realpath(directory)
    try:
        uid = os.stat(path).st_uid
    except FileNotFoundError as error:
        raise RetentionError(
            f"{directory} does not exist. If it was deleted or renamed, its trash is still beside it: create the "
            "directory again as its owner, and repeat this command"
        ) from error
    except OSError as error:
        raise RetentionError(f"{directory}: {error.strerror}") from error
    if os.geteuid() not in {0, uid}:
        raise RetentionError(f"{directory} belongs to {user_name(uid)}: only that user and root may see its trash")
    return RunKey("", uid, path)


def user_name(uid: int) -> str:
    """Return the name of a uid's user, or the number if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def name_actor() -> str:
    return f"{audit_entries.PERSON}{os.getuid()}"


def _place(entry: TrashEntry) -> TrashLocation:
    return TrashLocation(entry.uid, entry.place)
