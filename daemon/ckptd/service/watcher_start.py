"""Starts the watcher, which reads the configuration itself."""

from pathlib import Path

from ckptd.checkpoints.agent.watcher_client import WatcherClient
from ckptd.service.agent_options import DEFAULTS

MODULE = "ckptd.service.watcher_process"


def start_watcher(config_path: Path | None, *, is_configured: bool = True) -> WatcherClient:
    """Start the watcher with the configuration at this path, or with the default file where there is one.

    If `is_configured` is false, the watcher uses the default of every setting and reads no file.
    """
    options = [] if is_configured else [DEFAULTS]
    return WatcherClient(MODULE, [*options, *([] if config_path is None else [str(config_path)])])
