"""Finds damaged files by their series: the files beside them with the same names except for a number have a format."""

import re
from collections import defaultdict
from collections.abc import Sequence

from ckptd.checkpoints.formats.generic import Generic
from ckptd.checkpoints.formats.interface import Claim

_DIGITS = re.compile("[0-9]+")
_MIN_SIBLINGS = 2


def mark_strangers(claims: Sequence[Claim]) -> Sequence[Claim]:
    """Return the claims, and mark as damaged those of no format if others of their series have one.

    Only the first bytes show the format of `checkpoint-3`. If `checkpoint-1` and `checkpoint-2` have one format and it
    has none, its first bytes are not those that the program wrote.
    """
    if not any(_is_strange(claim) for claim in claims):
        return claims
    formats: dict[str, list[str]] = defaultdict(list)
    for claim in claims:
        if claim.format != Generic.name and _is_bare(claim):
            formats[_DIGITS.sub("#", claim.path)].append(claim.format)
    return [
        _mark(claim, formats.get(_DIGITS.sub("#", claim.path), ())) if _is_strange(claim) else claim for claim in claims
    ]


def _is_strange(claim: Claim) -> bool:
    return claim.format == Generic.name and _is_bare(claim)


def _is_bare(claim: Claim) -> bool:
    name = claim.path.rpartition("/")[2]
    return "." not in name and len(claim.files) == 1 and any(character.isdigit() for character in name)


def _mark(claim: Claim, siblings: Sequence[str]) -> Claim:
    if len(siblings) < _MIN_SIBLINGS or len(set(siblings)) > 1:
        return claim
    return claim._replace(damage=f"its first bytes are not those of {siblings[0]}, as the others of its series are")
