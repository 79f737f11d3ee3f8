"""Lists the settings that need a restart; a reload applies all others and names these.

Each of them belongs to something that the daemon opens before it gives up its privileges, or that all recorded rows
depend on.
"""

from ckptd.config import Config

NEEDS_RESTART = (
    "slurm.cluster",  # the name in every row
    "store.url",
    "store.password_file",
    "store.upgrade",
    "scan.inotify",  # the watcher is started while there are privileges
    "web.listen",
    "web.config_file",
    "service.user",
    "service.standby",
    "service.state_directory",
)
REMEDY = "systemctl restart ckptd"


def list_waiting(started: Config, wanted: Config) -> list[str]:
    """Return the settings that have changed since the start and need a restart."""
    return [name for name in NEEDS_RESTART if _read(started, name) != _read(wanted, name)]


def pin(started: Config, wanted: Config) -> Config:
    """Return the wanted configuration with the settings of the start where only a restart changes them."""
    pinned = wanted
    for name in list_waiting(started, wanted):
        section, key = name.split(".")
        changed = getattr(pinned, section).model_copy(update={key: _read(started, name)})
        pinned = pinned.model_copy(update={section: changed})
    return pinned


def _read(config: Config, name: str) -> object:
    section, key = name.split(".")
    return getattr(getattr(config, section), key)
