"""Reads settings by the names that they had before, so that an upgrade starts with the file as it is."""

import logging
from typing import Any

_LOGGER = logging.getLogger(__name__)

FORMER_NAMES = {
    "slurm.catch_up": "backfill",
    "slurm.catch_up_after": "backfill_after",
    "slurm.catch_up_most": "backfill_max_age",
    "scan.settle_time": "write_grace",
    "mail.tell_recovery": "notify_resolved",
    "apprise.tells": "audience",
    "health.rules.interrupted-save.settle_time": "min_age",
    "health.rules.not-resubmitted.stays": "open_for",
}
"""The path of each renamed setting, and its name now in the same table."""


def rename_former(data: dict[str, Any], source: str) -> None:
    """Give renamed settings their names of now, in place, with a warning each.

    A setting that is given under both names keeps both: the former is then refused as an unknown setting.
    """
    for path, name in FORMER_NAMES.items():
        *tables, former = path.split(".")
        table: object = data
        for key in tables:
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict) and former in table and name not in table:
            table[name] = table.pop(former)
            _LOGGER.warning("%s: %s is now called %s; the former name still works", source, path, name)
