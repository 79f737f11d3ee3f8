"""Pins checkpoints in the database, so that pruning keeps them, and unpins them."""

import os
from pathlib import PurePosixPath

import click

from ckptd.cli.output import safe
from ckptd.cli.run_names import RetentionError
from ckptd.cli.writable_scope import open_scope
from ckptd.core.model import Checkpoint, RunKey
from ckptd.store.store import Store


def set_pinned(context: click.Context, path: str, *, is_pinned: bool) -> None:
    """Pin or unpin the checkpoint at a path, or the one with a file there; print what was pinned."""
    found = PurePosixPath(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path.rstrip("/")))
    with open_scope(context) as desk:
        keys = [key for parent in found.parents for key in desk.store.runs.find_at(str(parent), desk.cluster)]
        own = [key for key in keys if os.geteuid() in {0, key.uid}]
        if keys and not own:
            raise RetentionError(
                f"{str(found)!r} is in another user's run: only that user and root may pin its checkpoints"
            )
        meant = [(key, each) for key in own for each in _find_checkpoints(desk.store, key, found)]
        for key, each in meant:
            desk.store.checkpoints.set_pinned(key, str(each.path), is_pinned=is_pinned)
    if not meant:
        raise RetentionError(f"no checkpoint {str(found)!r} is on record; `ckptd show JOB` lists those of a job")
    for named in dict.fromkeys(each.path for _, each in meant):
        click.echo(f"{'pinned' if is_pinned else 'unpinned'} {safe(named)}")
    count = max(len(each.files) for _, each in meant)
    if count > 1:
        click.echo(f"The checkpoint has {count} files, which are kept or removed together.")


def _find_checkpoints(store: Store, key: RunKey, path: PurePosixPath) -> list[Checkpoint]:
    """Return the checkpoints of a run at a path, or with a member or part there."""
    present = [record.checkpoint for record in store.checkpoints.read(key) if record.deleted_at is None]
    return [
        each
        for each in present
        if path == each.path
        or any(path == part.path for part in each.parts)
        or any(path == each.path.parent / file for file in each.files)
    ]
