"""Turns a child of the agent into the user on whose behalf it acts, for good."""

import os
import pwd

from ckptd.errors import CkptdError


class AgentError(CkptdError):
    """The agent refuses a request."""


def become(uid: int) -> None:
    """Switch this process to the user, with the user's groups and without any privilege.

    Raises:
        AgentError: the uid is root's or unknown, this process may not switch, or a privilege is left.

    """
    if uid == 0:
        raise AgentError("nothing is done as root on behalf of a job")
    if uid == os.geteuid():
        return
    try:
        user = pwd.getpwuid(uid)
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
        primary = user.pw_gid
    except KeyError:
        groups, primary = [], 65534
    try:
        os.setgroups(groups)
        os.setresgid(primary, primary, primary)
        os.setresuid(uid, uid, uid)
    except PermissionError as error:
        raise AgentError(f"this process may not act as uid {uid}") from error
    if os.getresuid() != (uid, uid, uid) or _effective_capabilities() != 0:
        raise AgentError(f"a privilege is left after becoming uid {uid}")


def _effective_capabilities() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return -1
