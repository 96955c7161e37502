"""The page that Prometheus reads. The one owner of prometheus_client; counts nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ferrule.server.observability.metrics import FAMILIES, Counts, Family, Spread

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def page(counts: Counts) -> bytes:
    """Every family that is known, also those that nothing was counted in yet: an alert on them must not be blind."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Shown(counts))
    return generate_latest(registry)


class _Shown(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        for name, family in FAMILIES.items():
            if family.bounds:
                yield _histogram(name, family, self._counts)
            else:
                yield _plain(name, family, self._counts)

    def describe(self) -> Iterator[Metric]:
        return iter(())


def _plain(name: str, family: Family, counts: Counts) -> Metric:
    kind = GaugeMetricFamily if family.is_gauge else CounterMetricFamily
    shown = kind(name, family.about, labels=family.labels)
    held = counts.sums.get(name, {} if family.labels else {(): 0})
    for labels, value in sorted(held.items()):
        shown.add_metric(labels, value)
    return shown


def _histogram(name: str, family: Family, counts: Counts) -> Metric:
    shown = HistogramMetricFamily(name, family.about, labels=family.labels)
    for labels, spread in sorted(counts.spreads.get(name, {}).items(), key=lambda one: one[0]):
        shown.add_metric(labels, _buckets(family, spread), spread.sum)
    return shown


def _buckets(family: Family, spread: Spread) -> list[tuple[str, float]]:
    so_far = 0
    told: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, family.bounds), "+Inf"], spread.counts, strict=True):
        so_far += count
        told.append((bound, so_far))
    return told
