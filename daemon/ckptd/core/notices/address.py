"""Finds a user's mail address: the job's own, or the one of the site's rule."""

import re

from ckptd.core.notices.notice import NoticePolicy

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9!#$%&'*+/=?^_`{{|}}~.-]{{0,63}}@({_LABEL}(?:\.{_LABEL})*)", re.ASCII)


def parse_address(text: str | None) -> str | None:
    """Return a mail address that is safe in SMTP commands and headers; None if the text is not clearly one."""
    if text is None or len(text) > 254 or ".." in text or ".@" in text:
        return None
    return text if _ADDRESS.fullmatch(text) else None


def find_address(user: str, mail_user: str | None, policy: NoticePolicy) -> str | None:
    """Return a user's address: the one that the job names, if valid and allowed, otherwise that of the site's rule."""
    named = parse_address(mail_user)
    if named is not None and _is_allowed(named, policy):
        return named
    return parse_address(policy.user_rule.replace("{user}", user)) if policy.user_rule else None


def find_refused(mail_user: str | None, policy: NoticePolicy) -> str | None:
    """Return the address that a job names if it is valid, but not in a domain that the site allows."""
    named = parse_address(mail_user)
    return None if named is None or _is_allowed(named, policy) else named


def _is_allowed(address: str, policy: NoticePolicy) -> bool:
    """Return whether users may name this address. With % or !, some relays send it on to another domain."""
    domains = {domain.lower() for domain in policy.allowed_domains}
    local, _, domain = address.rpartition("@")
    return not domains or (domain.lower() in domains and {"%", "!"}.isdisjoint(local))
