"""Finds what is wrong with a valid configuration on this host: accounts, files, templates, and names of formats."""

import os
from collections.abc import Iterator

from ckptd.checkpoints.formats import FORMATS
from ckptd.config import Config, ConfigError, list_unknown_formats
from ckptd.errors import CkptdError
from ckptd.service.accounts import list_unknown_accounts
from ckptd.service.build_notify import build_policy, build_renderer


def list_troubles(config: Config, *, is_service: bool) -> list[str]:
    """Return one sentence for each trouble; with `is_service`, also for files that this account may not read."""
    unreadable = dict(_list_unreadable(config, is_service=is_service))
    return [
        *list_unknown_accounts(config),
        *(f"{setting}: {text}" for setting, text in unreadable.items()),
        *(() if "apprise.urls_file" in unreadable else _list_policy_troubles(config)),
        *(f"mail.templates: {trouble}" for trouble in build_renderer(config.mail).list_troubles()),
        *list_unknown_formats(config.retention, FORMATS),
    ]


def refuse_troubles(config: Config) -> None:
    """Refuse, as the service's account, a configuration with troubles.

    Raises:
        ConfigError: it has some; the text lists them.

    """
    if troubles := list_troubles(config, is_service=True):
        raise ConfigError("; ".join(troubles))


def _list_unreadable(config: Config, *, is_service: bool) -> Iterator[tuple[str, str]]:
    for setting, path in config.list_files().items():
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except PermissionError as error:
            if is_service:
                yield setting, f"{path}: {error.strerror}"
        except OSError as error:
            yield setting, f"{path}: {error.strerror}"


def _list_policy_troubles(config: Config) -> Iterator[str]:
    try:
        build_policy(config)
    except CkptdError as error:
        yield str(error)
