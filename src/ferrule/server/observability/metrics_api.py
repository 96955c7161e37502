"""`/metrics`: what the gateway has done and how it stands, for Prometheus. Over all of its workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.server.apis.chat import shape
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole
from ferrule.server.observability.metrics import Counts
from ferrule.server.observability.metrics_page import MEDIA_TYPE, page
from ferrule.server.observability.metrics_shared import SECONDS_BETWEEN_WRITINGS, Shared


def routes(gateway: Gateway) -> list[Route]:
    async def shown(asked: Asked) -> Answer:
        counts = counts_of(gateway)
        shared = gateway.watch.shared
        if shared is not None:
            # First, so that what was shown once outlives this process.
            shared.write(counts)
            for other in await asyncio.to_thread(lambda: list(shared.others())):
                counts.merge(other)
        await _count_waiting(gateway, counts)
        return Whole(page(counts), media_type=MEDIA_TYPE)

    scope = "open" if gateway.config.listening.metrics_open else "admin"
    return [Route("GET", "/metrics", shown, scope, shape)]


def counts_of(gateway: Gateway) -> Counts:
    """Of this process, as of now."""
    watch = gateway.watch
    counts = watch.counted()
    for replica in gateway.router.replicas:
        counts.add("ferrule_engine_well", replica.name, by=int(replica.health.is_well))
        counts.add("ferrule_engine_answers_open", replica.name, by=replica.under_way)
    counts.add("ferrule_answers_open", by=len(watch.answers))
    counts.add("ferrule_requests_open", by=len(watch.requests))
    counts.add("ferrule_draining", by=int(watch.drain.has_begun))
    counts.add("ferrule_workers")
    return counts


@asynccontextmanager
async def counts_shared(gateway: Gateway, shared: Shared | None) -> AsyncGenerator[None]:
    """While it is entered, what this worker counts is written down for the others."""
    if shared is None:
        yield
        return
    gateway.watch.shared = shared
    gateway.watch.counts.merge(shared.begun_with())
    writing = asyncio.ensure_future(_written_now_and_then(gateway, shared))
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        shared.write(counts_of(gateway).without_gauges())


async def _written_now_and_then(gateway: Gateway, shared: Shared) -> None:
    while True:
        # Not in a thread: an older writing must not come after a newer one. It is a short file.
        shared.write(counts_of(gateway))
        await asyncio.sleep(SECONDS_BETWEEN_WRITINGS)


async def _count_waiting(gateway: Gateway, counts: Counts) -> None:
    """In the ledger, which all workers and replicas share: told by one, and not summed."""
    try:
        waiting = await gateway.ledger.approvals(ApprovalState.PENDING)
    except LedgerError as failure:
        gateway.watch.ledger_failed(failure)
        return
    counts.add("ferrule_approvals_waiting", by=len(waiting))
