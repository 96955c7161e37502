"""Render counts in the text format of Prometheus. The only module that imports prometheus_client."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ferrule.server.observability.metrics import FAMILIES, Counts, Family, Histogram

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render_page(counts: Counts) -> bytes:
    """Render all families, including those without values yet, so that alerts on them work."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_CountsCollector(counts))
    return generate_latest(registry)


class _CountsCollector(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        for name, family in FAMILIES.items():
            if family.bounds:
                yield _histogram(name, family, self._counts)
            else:
                yield _simple_metric(name, family, self._counts)

    def describe(self) -> Iterator[Metric]:
        return iter(())


def _simple_metric(name: str, family: Family, counts: Counts) -> Metric:
    metric_class = GaugeMetricFamily if family.is_gauge else CounterMetricFamily
    metric = metric_class(name, family.help_text, labels=family.labels)
    series = counts.values.get(name, {} if family.labels else {(): 0})
    for labels, value in sorted(series.items()):
        metric.add_metric(labels, value)
    return metric


def _histogram(name: str, family: Family, counts: Counts) -> Metric:
    metric = HistogramMetricFamily(name, family.help_text, labels=family.labels)
    for labels, histogram in sorted(counts.histograms.get(name, {}).items(), key=lambda one: one[0]):
        metric.add_metric(labels, _buckets(family, histogram), histogram.sum)
    return metric


def _buckets(family: Family, histogram: Histogram) -> list[tuple[str, float]]:
    so_far = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, family.bounds), "+Inf"], histogram.counts, strict=True):
        # Prometheus buckets are cumulative; ours are not.
        so_far += count
        buckets.append((bound, so_far))
    return buckets
