"""Says as which users the agent may act: those of people, never those of the system."""

import grp
import os
import pwd
from dataclasses import dataclass
from typing import NamedTuple

from ckptd.errors import CkptdError

LOGIN_DEFS = "/etc/login.defs"
DEFAULT_UID_MIN = 1000  # login.defs(5)
_OVERFLOW_UIDS = frozenset({65_534, 65_535, 2**32 - 2, 2**32 - 1})  # "nobody" on different systems, and "no uid"


class DeniedUserError(CkptdError):
    """The agent does not act as this user."""


class UserAccount(NamedTuple):
    """What the name services know about a user, asked once for each request."""

    uid: int
    name: str | None  # None: the uid has no account
    primary_group: int
    groups: tuple[int, ...]
    home: str | None


def read_account(uid: int) -> UserAccount:
    """Return a user's account; a uid without one is in nobody's group alone."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return UserAccount(uid, None, 65534, (), None)
    return UserAccount(uid, user.pw_name, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)), user.pw_dir)


@dataclass(frozen=True, kw_only=True, slots=True)
class Identities:
    """The users as whom the agent may act. The defaults are the configuration's."""

    uid_min: int = DEFAULT_UID_MIN
    deny_users: tuple[str, ...] = ()
    deny_groups: tuple[str, ...] = ()
    denied_uids: tuple[int, ...] = ()  # of `deny_users` when the policy was read: names may not be known later
    denied_gids: tuple[int, ...] = ()

    def check_number(self, uid: int) -> None:
        """Refuse a uid by its number alone, which asks no name service that could be slow.

        An agent without root's privileges can only be its own user, who is always allowed.

        Raises:
            DeniedUserError: the reason.

        """
        if uid == 0:
            raise DeniedUserError("nothing is done as root on behalf of a job")
        if os.geteuid() != 0:
            return
        if uid < self.uid_min:
            raise DeniedUserError(f"uid {uid} is below uid_min, {self.uid_min}")
        if uid in _OVERFLOW_UIDS or uid in self.denied_uids:
            raise DeniedUserError(f"uid {uid} is in deny_users")

    def check_names(self, account: UserAccount) -> None:
        """Refuse a user by name and groups.

        Raises:
            DeniedUserError: the reason.

        """
        if os.geteuid() != 0:
            return
        if account.name in self.deny_users:
            raise DeniedUserError(f"user {account.name} is in deny_users")
        for gid in account.groups:
            if gid == 0 or gid in self.denied_gids or (self.deny_groups and _find_group(gid) in self.deny_groups):
                raise DeniedUserError(f"user {account.name} is in a group of deny_groups (gid {gid})")


def read_identities(
    uid_min: int | None, deny_users: tuple[str, ...], deny_groups: tuple[str, ...], login_defs: str = LOGIN_DEFS
) -> Identities:
    """Return the users as whom the agent may act, with the numbers of those names that are known here."""
    return Identities(
        uid_min=uid_min or read_uid_min(login_defs),
        deny_users=deny_users,
        deny_groups=deny_groups,
        denied_uids=tuple(uid for uid in map(_find_uid, deny_users) if uid is not None),
        denied_gids=tuple(gid for gid in map(_find_gid, deny_groups) if gid is not None),
    )


def read_uid_min(path: str = LOGIN_DEFS) -> int:
    """Return UID_MIN of login.defs; its default where the file does not say."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split()
                if len(words) >= 2 and words[0] == "UID_MIN" and words[1].isdecimal():
                    return int(words[1])
    except OSError:
        pass
    return DEFAULT_UID_MIN


def _find_uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _find_gid(name: str) -> int | None:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def _find_group(gid: int) -> str | None:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None
