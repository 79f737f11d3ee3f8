"""Reads the trashes that a command names, or those of all recorded runs that the user may see."""

import os
import pwd
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import click

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.client import AgentClient
from ckptd.checkpoints.agent.trash_client import TrashLocation
from ckptd.checkpoints.trash import TrashEntry
from ckptd.cli.cluster_choice import find_cluster
from ckptd.cli.listing_record import open_record
from ckptd.cli.output import EXIT_USAGE
from ckptd.cli.run_names import RetentionError
from ckptd.config.raw_tables import ConfigError
from ckptd.config.trash_settings import TrashSettings, read_trash_settings
from ckptd.core.model import RunKey, Unknown
from ckptd.service.agent_start import start_agent
from ckptd.store.listing_readers import ClusterReader
from ckptd.store.read_parts import Snapshot
from ckptd.store.run_rows import RunReader

DEADLINE = timedelta(minutes=5)


class TrashView(NamedTuple):
    """The trashes, the site's hold, and whether the database knows their runs."""

    agent: AgentClient
    places: dict[TrashLocation, RunKey]
    hold: timedelta | None
    is_recorded: bool

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


@contextmanager
def open_view(context: click.Context, directories: Collection[str]) -> Iterator[TrashView]:
    """Open the trashes of these directories, without a database, or of all recorded runs that the user may see."""
    keys = list_keys(directories) if directories else _read_keys(context)
    with start_trash_agent(context) as agent:
        yield view_trashes(context, agent, keys, is_recorded=not directories)


def view_trashes(context: click.Context, agent: AgentClient, keys: Iterable[RunKey], *, is_recorded: bool) -> TrashView:
    """Return the trashes of these runs."""
    places = {place: key for key in keys for place in trash_client.places_of([key])}
    return TrashView(agent, places, _read_hold(context), is_recorded)


def _read_keys(context: click.Context) -> list[RunKey]:
    """Return the recorded runs that the user may see; exit with the errors of an invalid configuration."""
    try:
        settings = _read_settings(context)
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_USAGE) from error
    with open_record(settings.listing) as record, record.begin() as select:
        database = Snapshot(select)
        cluster = find_cluster(None, settings.listing.cluster, ClusterReader(database).read_status())
        keys = RunReader(database).list_keys()
    uid = os.geteuid()
    return [key for key in keys if key.cluster == cluster and uid in {0, key.uid}]


@contextmanager
def start_trash_agent(context: click.Context) -> Iterator[AgentClient]:
    """Start an agent; a configuration with errors must not keep anybody from what is in the trash."""
    try:
        _read_settings(context)
    except ConfigError:
        agent = start_agent(None, is_person=True, is_configured=False, is_for_trash=True)
    else:
        agent = start_agent(_config_path(context), is_person=True, is_for_trash=True)
    try:
        yield agent
    finally:
        agent.close()


def _read_hold(context: click.Context) -> timedelta | None:
    """Return the configured hold; None if the configuration has errors, so that the trash stays usable."""
    try:
        return _read_settings(context).hold
    except ConfigError:
        return None


def _read_settings(context: click.Context) -> TrashSettings:
    return read_trash_settings(_config_path(context), os.environ)


def _config_path(context: click.Context) -> Path | None:
    path: Path | None = context.find_root().params.get("config")
    return path


def list_keys(directories: Iterable[str]) -> list[RunKey]:
    """Return the runs at these directories, without a database.

    Raises:
        RetentionError: a directory is not there, or its trash is not for this user to see.

    """
    return [_key_of(directory) for directory in directories]


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
