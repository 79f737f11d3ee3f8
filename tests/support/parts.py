"""The parts of a cycle as tests need them: whatever a test does not care about has a value that is in nobody's way."""

from datetime import timedelta

from ckptd.checkpoints.agent.scan_client import ScanLimits
from ckptd.core import health
from ckptd.service.step_table import make_runner
from ckptd.steps.parts import Parts

LIMITS = ScanLimits(deadline=timedelta(seconds=30))


def make_rules():
    """Every health rule, with the thresholds that they come with."""
    return tuple(rule() for rule in health.RULES.values())


def make_parts(cluster, source, store, agent=None, **changes):
    """Parts that judge nothing, look every five minutes and watch a job from its first moment on."""
    values = {
        "runner": make_runner(),
        "rules": (),
        "site_rules": (),
        "limits": LIMITS,
        "scan_interval": timedelta(minutes=5),
        "max_poll_age": timedelta(minutes=5),
        "min_job_duration": timedelta(0),
    }
    return Parts(cluster=cluster, source=source, store=store, agent=agent, **{**values, **changes})
