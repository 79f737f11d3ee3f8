"""Turns a process into the user on whose behalf it acts: a child of the agent for good, others for a moment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ckptd.checkpoints.agent.identities import UserAccount
from ckptd.errors import CkptdError


class AgentError(CkptdError):
    """The agent refuses a request."""


def become(account: UserAccount) -> None:
    """Switch this process to the user, with the user's groups and without any privilege.

    Raises:
        AgentError: the uid is root's, this process may not switch, or a privilege is left.

    """
    uid, primary = account.uid, account.primary_group
    if uid == 0:
        raise AgentError("nothing is done as root on behalf of a job")
    if uid == os.geteuid():
        return
    try:
        os.setgroups(account.groups)
        os.setresgid(primary, primary, primary)
        os.setresuid(uid, uid, uid)
    except PermissionError as error:
        raise AgentError(f"this process may not act as uid {uid}") from error
    if os.getresuid() != (uid, uid, uid) or _effective_capabilities() != 0:
        raise AgentError(f"a privilege is left after becoming uid {uid}")


@contextmanager
def effective_user(uid: int) -> Iterator[None]:
    """Have the user's rights for a moment, with root's groups, where this process is root; all threads have them.

    It ends the user's processes without CAP_KILL. The real and the saved user stay root: the user cannot signal this
    process, and it can still signal root's, such as a child that has not become the user yet.
    """
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def effective_owner(account: UserAccount) -> Iterator[None]:
    """Have the user's rights and groups for a moment, where this process is root; all threads have them.

    Raises:
        AgentError: the uid is root's.

    """
    if account.uid == 0:
        raise AgentError("nothing is done as root on behalf of a job")
    if os.geteuid() != 0:
        yield
        return
    before = os.getgroups()
    os.setgroups(account.groups)
    os.setegid(account.primary_group)
    try:
        with effective_user(account.uid):
            yield
    finally:
        os.setegid(0)
        os.setgroups(before)


def _effective_capabilities() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return -1
