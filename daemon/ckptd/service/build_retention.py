"""Builds the site's retention policies and limits from the configuration, for the daemon and for commands."""

from datetime import timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ckptd.config import RetentionSection, build_bounds, build_policies
from ckptd.core import retention
from ckptd.steps.site_policy import SitePolicy

if TYPE_CHECKING:  # `ckptd plan` reads only the sections that it needs
    from ckptd.config import Config

ACT_DEADLINES = 5  # each file of a checkpoint is checked several times before and after it is moved


def build_retention(config: "Config") -> SitePolicy:
    """Return the site's retention policies and limits."""
    return build_site_policy(config.retention, config.scan.deadline, config.scan.allowed_roots)


def build_site_policy(
    section: RetentionSection, scan_deadline: timedelta, allowed_roots: tuple[PurePosixPath, ...]
) -> SitePolicy:
    """Return the same of the settings that it is made of."""
    return SitePolicy(
        matches=build_policies(section),
        bounds=build_bounds(section),
        caps=retention.Caps(**section.caps.model_dump()),
        guards=retention.Guards(**section.guards.model_dump()),
        interval=section.interval,
        hold=section.hold,
        no_room_hold=section.no_room_hold,
        deadline=scan_deadline * ACT_DEADLINES,
        look_deadline=scan_deadline,
        verify_deadline=section.verify_deadline,
        allowed_roots=allowed_roots,
    )
