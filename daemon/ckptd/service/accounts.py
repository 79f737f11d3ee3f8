"""Finds accounts that the configuration names and that this host does not have."""

import pwd

from ckptd.config import Config


def list_unknown_accounts(config: Config) -> list[str]:
    """Return one error for each account that must exist on this host and does not."""
    named = {"service.user": config.service.user, "web.proxy_account": config.web.proxy_account}
    return [
        f"{setting}: there is no account {name!r} on this host"
        for setting, name in named.items()
        if name is not None and not has_account(name)
    ]


def has_account(name: str) -> bool:
    """Return whether this host has an account of this name."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
