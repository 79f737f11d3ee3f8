"""Checks the directories that ckptd may read: mounted, of which file system, and whether access times are kept."""

import os
from collections.abc import Iterator
from pathlib import PurePosixPath

from ckptd.checkpoints.scanning.mounts import Mount, find_mount, read_mounts
from ckptd.config import Config
from ckptd.service.doctor.findings import CheckResult, error, ok, warning


def check_roots(config: Config) -> Iterator[CheckResult]:
    """Check scan.allowed_roots as the agent sees them."""
    mounts = read_mounts()
    for root in config.scan.allowed_roots:
        yield from _check_root(root, mounts, config)


def check_workspaces(config: Config) -> Iterator[CheckResult]:
    """Check the databases of workspaces."""
    for path in config.scan.workspace_databases:
        if os.path.isdir(path):
            yield ok(f"scan.workspace_databases: {path} is a directory")
        else:
            yield error(f"scan.workspace_databases: {path} is no directory", "correct it: `database` of /etc/ws.conf")


def _check_root(root: PurePosixPath, mounts: tuple[Mount, ...], config: Config) -> Iterator[CheckResult]:
    name = f"scan.allowed_roots: {root}"
    try:
        real = PurePosixPath(os.path.realpath(root, strict=True))
    except OSError as failure:
        yield error(f"{name}: {failure.strerror}", "mount it on this host, or correct the path")
        return
    if not os.path.isdir(real):
        yield error(f"{name} is no directory", "correct the path")
        return
    mount = find_mount(mounts, real)
    if mount is None:
        yield error(f"{name}: the kernel lists no file system for it", "mount it on this host")
        return
    access_times = next((each for each in ("noatime", "relatime") if each in mount.options), "strictatime")
    watched = "not watched with inotify: network" if mount.is_network else "watched with inotify"
    text = f"{name}: {mount.filesystem_type} mounted on {mount.point}, {access_times}, {watched}"
    by_access = [rule.path for rule in config.purge if rule.by == "atime" and _is_related(rule.path, root)]
    if by_access and access_times == "noatime":
        yield warning(
            f'{text}; [[purge]] path = "{by_access[0]}" counts from the access time, which is never updated here',
            'ask how the site\'s cleanup reads it; by = "mtime" may be right',
        )
    elif real == PurePosixPath("/") and config.scan.allowed_roots == (PurePosixPath("/"),):
        yield warning(text, "name the file systems with checkpoints, so that ckptd reads nothing else")
    else:
        yield ok(text)


def _is_related(path: str, root: PurePosixPath) -> bool:
    return PurePosixPath(path).is_relative_to(root) or root.is_relative_to(path)
