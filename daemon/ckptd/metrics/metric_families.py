"""Builds metric families with a bounded number of series.

Label values are cut to a maximum length and stripped of invalid UTF-8, which would make the whole answer invalid. If a
family would have too many series, those that come last by name are summed up as `other`.
"""

from collections.abc import Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from ckptd.core.fleet.histogram import Distribution

MAX_SERIES = 50  # of a family with one label, three times as many for each further one
MAX_LENGTH = 64
OTHER = "other"

Labels = tuple[str, ...]
Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


def label(text: str) -> str:
    """Return a text as a valid label value."""
    return text.encode("utf-8", "backslashreplace").decode()[:MAX_LENGTH]


def gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, meaning, value)


def counter(name: str, meaning: str, value: float) -> CounterMetricFamily:
    """Return a counter without labels; `name` has no `_total`."""
    return CounterMetricFamily(name, meaning, value)


def gauges(name: str, meaning: str, labels: Labels, values: Mapping[Labels, float]) -> GaugeMetricFamily:
    """Return a gauge with labels."""
    return _fill(GaugeMetricFamily(name, meaning, labels=labels), labels, values)


def counters(name: str, meaning: str, labels: Labels, values: Mapping[Labels, float]) -> CounterMetricFamily:
    """Return a counter with labels; `name` has no `_total`."""
    return _fill(CounterMetricFamily(name, meaning, labels=labels), labels, values)


def histogram(name: str, meaning: str, values: Distribution) -> HistogramMetricFamily:
    """Return a histogram without labels."""
    return HistogramMetricFamily(name, meaning, buckets=values.cumulative(), sum_value=values.total)


def histograms(name: str, meaning: str, of: str, values: Mapping[str, Distribution]) -> HistogramMetricFamily:
    """Return a histogram for each value of one label."""
    family = HistogramMetricFamily(name, meaning, labels=[of])
    for value, found in sorted(values.items()):
        family.add_metric([label(value)], found.cumulative(), found.total)
    return family


def _fill(family: Family, labels: Labels, values: Mapping[Labels, float]) -> Family:
    for names, value in sorted(_bound(values, MAX_SERIES * 3 ** (len(labels) - 1)).items()):
        family.add_metric(names, value)
    return family


def _bound(values: Mapping[Labels, float], limit: int) -> dict[Labels, float]:
    result: dict[Labels, float] = {}
    for names, value in sorted(values.items()):
        cleaned = tuple(label(name) for name in names)
        if len(result) >= limit and cleaned not in result:
            cleaned = (OTHER,) * len(names)
        result[cleaned] = result.get(cleaned, 0) + value
    return result
