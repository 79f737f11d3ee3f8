"""Finds accounts that the configuration names and that this host does not have."""

import grp
import pwd

from ckptd.config import Config
from ckptd.config.agent import AgentSection


def list_unknown_accounts(config: Config) -> list[str]:
    """Return one error for each account that must exist on this host and does not."""
    named = {"service.user": config.service.user, "web.proxy_account": config.web.proxy_account}
    return [
        f"{setting}: there is no account {name!r} on this host"
        for setting, name in named.items()
        if name is not None and not has_account(name)
    ]


def list_unknown_denials(config: Config) -> list[str]:
    """Return one warning for each user and group that the agent is to refuse and that this host does not have.

    Such an account may be created later, but the name may also be a typing error. The defaults name services that many
    hosts do not have.
    """
    usual = AgentSection()
    users = set(config.agent.deny_users) - set(usual.deny_users)
    groups = set(config.agent.deny_groups) - set(usual.deny_groups)
    return [
        *(
            f"agent.deny_users: there is no account {name!r} on this host"
            for name in sorted(users)
            if not has_account(name)
        ),
        *(
            f"agent.deny_groups: there is no group {name!r} on this host"
            for name in sorted(groups)
            if not _has_group(name)
        ),
    ]


def has_account(name: str) -> bool:
    """Return whether this host has an account of this name."""
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):  # ValueError: a NUL in the name
        return False
    return True


def _has_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except (KeyError, ValueError):
        return False
    return True
