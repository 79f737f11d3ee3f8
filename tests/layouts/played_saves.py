"""Plays saves into a directory, with looks and removals in between, and tells what `last = 1` keeps."""

import os
from dataclasses import replace
from datetime import timedelta

from layouts.real import pipeline

HOUR = timedelta(hours=1)
MARKERS = ("last_checkpoint", "latest_checkpointed_iteration.txt")


def put(root, name, data, at):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (at.timestamp(),) * 2)


def list_kept(root, watch, now):
    removed = {each.record.checkpoint.path for each in watch.plan(now).remove}
    return {
        str((each.checkpoint.path.parent / file).relative_to(root))
        for each in watch.records
        if each.deleted_at is None and each.checkpoint.path not in removed
        for file in each.checkpoint.files
    }


def prune(root, watch, now):
    """Do what `last = 1` says, and record it."""
    gone = {id(each.record): each.record.checkpoint for each in watch.plan(now).remove}
    for checkpoint in gone.values():
        for file in checkpoint.files:
            (root / checkpoint.path.parent / file).unlink()
    watch.records = [replace(each, pruned_at=now) if id(each) in gone else each for each in watch.records]


def play(root, saves, *, prunes_each=False):
    """Write what was saved at these hours, and look after each save; return what `last = 1` keeps.

    With `prunes_each`, what it does not keep goes after each save, and not only after the last one.
    """
    watch, hours = pipeline.Watch(root, os.geteuid()), 0
    for hours, files in saves:
        at = pipeline.START + hours * HOUR
        for name, data in files.items():
            put(root, name, data, at)
        watch.look(at + pipeline.UNTIL_SEEN)
        if prunes_each:
            prune(root, watch, at + 2 * pipeline.UNTIL_SEEN)
    for later in (2, 5, 8, 11):  # what goes each time is not there the next time
        watch.look(pipeline.START + (hours + later) * HOUR)
        kept = list_kept(root, watch, pipeline.START + (hours + later + 1) * HOUR)
        for path in root.rglob("*"):
            if path.name not in MARKERS and path.is_file() and str(path.relative_to(root)) not in kept:
                path.unlink()
    return kept
