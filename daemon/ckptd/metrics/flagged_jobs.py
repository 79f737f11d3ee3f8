"""The only metrics that name jobs: off by default, and limited in number by `metrics.flagged_jobs`."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from ckptd.core.model import Flag
from ckptd.metrics.metric_families import gauge, label


def collect_flagged(flags: Sequence[Flag], limit: int) -> Iterator[Metric]:
    """Yield one series for each open flag, the worst and then the oldest first, and the number of omitted flags."""
    if limit <= 0:
        return
    worst = sorted(flags, key=lambda flag: (-flag.finding.severity.rank, flag.opened_at, flag.flag_id or 0))
    shown: dict[tuple[str, str, str, str], float] = {}
    for flag in worst[:limit]:
        finding = flag.finding
        job_id = "" if finding.job_id is None else str(finding.job_id)
        names = (job_id, label(finding.user), finding.rule, finding.severity.value)
        shown[names] = min(flag.opened_at.timestamp(), shown.get(names, float("inf")))
    family = GaugeMetricFamily(
        "ckptd_flag_opened_timestamp_seconds",
        "When an open flag of a job opened, as a Unix timestamp.",
        labels=["job_id", "user", "rule", "severity"],
    )
    for names, opened_at in shown.items():
        family.add_metric(names, opened_at)
    yield family
    yield gauge(
        "ckptd_omitted_flags",
        "Open flags omitted from ckptd_flag_opened_timestamp_seconds because of the limit metrics.flagged_jobs.",
        max(len(worst) - limit, 0),
    )
