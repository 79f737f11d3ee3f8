"""Reads the memory of the service's own control group, as systemd made it (cgroups(7), version 2)."""

from pathlib import Path, PurePosixPath

from ckptd.core.fleet.service_memory import ServiceMemory

_OWN_GROUP = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")
_NEEDED = ("anon", "shmem", "slab_unreclaimable", "kernel_stack", "pagetables")


def read_memory(own_group: Path = _OWN_GROUP, root: Path = _ROOT) -> ServiceMemory | None:
    """Return the memory in use and the lowest limit; None without a limit, or where the kernel does not say."""
    try:
        (line,) = [each for each in own_group.read_text().splitlines() if each.startswith("0::/")]
        group = PurePosixPath(line.removeprefix("0::/"))
        limits = [
            int(text)
            for each in (group, *group.parents)
            if (file := root / each / "memory.max").exists() and (text := file.read_text().strip()) != "max"
        ]
        used = _read_needed(root / group / "memory.stat")
    except (OSError, ValueError):
        return None
    return ServiceMemory(used_bytes=used, limit_bytes=min(limits)) if limits else None


def _read_needed(statistics: Path) -> int:
    """Add up what the kernel cannot drop; memory.current also counts the page cache, which fills any limit."""
    fields = dict(line.split() for line in statistics.read_text().splitlines())
    return sum(int(fields.get(name, 0)) for name in _NEEDED)
