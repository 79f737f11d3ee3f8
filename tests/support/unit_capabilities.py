"""Starts a program as root with no more capabilities than the shipped unit leaves it."""

import re
from pathlib import Path

UNIT = Path(__file__).parents[2] / "deploy/systemd/ckptd.service"


def limit_to_unit():
    """Return the words that go before a command line."""
    [names] = re.findall(r"^CapabilityBoundingSet=(.*)", UNIT.read_text(), re.MULTILINE)
    kept = [f"+{name.removeprefix('CAP_').lower()}" for name in names.split()]
    return ["setpriv", "--bounding-set", ",".join(["-all", *kept])]
