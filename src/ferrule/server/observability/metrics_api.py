"""`/metrics`: the metrics of all workers of the gateway, for Prometheus.

A scraper that accepts OpenMetrics gets it, with exemplars: the IDs of the trace and of the request of a measured value.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPEN, OPERATOR, AnyResponse, Request, Response, Route
from ferrule.server.observability.health import ANSWERS, probe_ledger
from ferrule.server.observability.metrics import (
    FAMILIES,
    WRITE_INTERVAL_SECONDS,
    Counts,
    Family,
    Histogram,
    SharedCounts,
)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_MEDIA_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"


def render_page(counts: Counts, *, is_openmetrics: bool = False) -> bytes:
    """Render all families, including those without values yet, so that alerts on them work."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_CountsCollector(counts))
    encode = choose_encoder(OPENMETRICS_MEDIA_TYPE)[0] if is_openmetrics else generate_latest
    return encode(registry)


def accepts_openmetrics(accept: str) -> bool:
    """Whether an `Accept` header names OpenMetrics, and not with a weight of zero.

    Prometheus names it first. Nothing else does, so its weight beside others need not be compared.
    """
    for one in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in one.split(";"))
        if media_type == OPENMETRICS:
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters)
    return False


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


def _buckets(family: Family, histogram: Histogram) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    so_far = 0
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for at, (bound, count) in enumerate(zip([*map(str, family.bounds), "+Inf"], histogram.counts, strict=True)):
        # Prometheus buckets are cumulative; ours are not.
        so_far += count
        exemplar = histogram.exemplars.get(at)
        if exemplar is None:
            buckets.append((bound, so_far))
            continue
        ids = {"trace_id": exemplar.trace_id, "request_id": exemplar.request_id}
        labels = {name: value for name, value in ids.items() if value}
        buckets.append((bound, so_far, Exemplar(labels, exemplar.value, exemplar.at)))
    return buckets


def routes(gateway: Gateway) -> list[Route]:
    async def get_metrics(request: Request) -> AnyResponse:
        await gateway.engine_probe.probe()
        counts = collect_counts(gateway)
        shared = gateway.telemetry.shared
        if shared is not None:
            # Written first, so that numbers that were shown once survive this process.
            shared.write(counts)
            for other in await asyncio.to_thread(lambda: list(shared.others())):
                counts.merge(other)
        await _count_ledger(gateway, counts)
        if accepts_openmetrics(request.headers.get("accept", "")):
            return Response(render_page(counts, is_openmetrics=True), media_type=OPENMETRICS_MEDIA_TYPE)
        return Response(render_page(counts), media_type=MEDIA_TYPE)

    scope = OPEN if gateway.config.server.metrics_open else OPERATOR
    return [Route("GET", "/metrics", get_metrics, scope, render_error)]


def collect_counts(gateway: Gateway) -> Counts:
    """The current counts and gauges of this process."""
    telemetry = gateway.telemetry
    counts = telemetry.snapshot()
    for replica in gateway.router.replicas:
        counts.add("ferrule_engine_well", replica.name, by=int(replica.health.is_healthy))
        counts.add("ferrule_engine_answers_open", replica.name, by=replica.in_flight)
    for load in gateway.tool_catalog.source.loads:
        counts.add("ferrule_tool_threads", load.tool, by=load.running)
        counts.add("ferrule_tool_threads_hung", load.tool, by=load.hung)
    counts.add("ferrule_answers_open", by=len(telemetry.answers))
    counts.add("ferrule_requests_open", by=len(telemetry.requests))
    counts.add("ferrule_draining", by=int(telemetry.drain.has_begun))
    counts.add("ferrule_workers")
    counts.add("ferrule_traces_waiting", by=gateway.traces.waiting)
    for number, shard in enumerate(gateway.ledger.shards, 1):
        load = shard.pool_load
        if load is not None:
            counts.add("ferrule_ledger_connections", str(number), "in_use", by=load.in_use)
            counts.add("ferrule_ledger_connections", str(number), "limit", by=load.limit)
            counts.add("ferrule_ledger_waiting", str(number), by=load.waiting)
    return counts


@asynccontextmanager
async def share_counts(gateway: Gateway, shared: SharedCounts | None) -> AsyncGenerator[None]:
    """While open, write the counts of this worker to the shared folder for the others."""
    if shared is None:
        yield
        return
    gateway.telemetry.shared = shared
    gateway.telemetry.counts.merge(shared.previous_counts())
    writer = asyncio.ensure_future(_write_periodically(gateway, shared))
    try:
        yield
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        shared.write(collect_counts(gateway).without_gauges())


async def _write_periodically(gateway: Gateway, shared: SharedCounts) -> None:
    while True:
        # Not in a thread, so that an older write cannot overtake a newer one. The file is short.
        shared.write(collect_counts(gateway))
        await asyncio.sleep(WRITE_INTERVAL_SECONDS)


async def _count_ledger(gateway: Gateway, counts: Counts) -> None:
    """Count databases and pending approvals. All workers share the ledger, so they are added once and not summed."""
    states = await probe_ledger(gateway)
    for number, (state, seconds) in enumerate(states, 1):
        counts.add("ferrule_ledger_well", str(number), by=int(state == ANSWERS))
        counts.add("ferrule_ledger_probe_seconds", str(number), by=seconds)
    if any(state != ANSWERS for state, _ in states):
        # The number would not be complete, and a database that is silent would hold up this page.
        return
    try:
        pending = await gateway.ledger.count_approvals(ApprovalState.PENDING)
    except LedgerError as error:
        gateway.telemetry.record_ledger_failure(error)
        return
    counts.add("ferrule_approvals_waiting", by=pending)
