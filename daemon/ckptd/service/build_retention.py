"""Builds the site's retention policies and limits from the configuration, for the daemon and for commands."""

from ckptd.config import Config, build_bounds, build_policies
from ckptd.core import retention
from ckptd.steps.site_policy import SitePolicy

ACT_DEADLINES = 5  # each file of a checkpoint is checked several times before and after it is moved


def build_retention(config: Config) -> SitePolicy:
    """Return the site's retention policies and limits."""
    section = config.retention
    return SitePolicy(
        matches=build_policies(section),
        bounds=build_bounds(section),
        caps=retention.Caps(**section.caps.model_dump()),
        guards=retention.Guards(**section.guards.model_dump()),
        interval=section.interval,
        hold=section.hold,
        no_room_hold=section.no_room_hold,
        deadline=config.scan.deadline * ACT_DEADLINES,
        look_deadline=config.scan.deadline,
        verify_deadline=section.verify_deadline,
        allowed_roots=config.scan.allowed_roots,
    )
