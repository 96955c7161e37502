"""A client that asks for a stored response, records every event, and returns after each broken connection."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from lab.ledger_storm.processes import Victim

LAST: Final = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_EVENT: Final = b"data: {"
"""How the line of an event begins; a stream's last line is `data: [DONE]`."""
_PAUSE: Final = 0.1
_SILENCE: Final = 4.0
"""Seconds without a byte after which a client gives a connection up: more than a gateway's keep-alive would need."""


@dataclass(slots=True)
class GatewayAddress:
    """Where a gateway serves. `url` is empty while it starts."""

    victim: Victim
    url: str = ""


@dataclass(slots=True)
class Reader:
    """One client of one task. `served_by` is the process that it reads from now."""

    task: str
    id: str = ""
    events: list[Any] = field(default_factory=list[Any])
    returns: int = 0
    served_by: int = 0
    refusals: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    @property
    def is_over(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in LAST

    async def read(self, session: aiohttp.ClientSession, gateways: Callable[[], list[GatewayAddress]]) -> None:
        while not self.is_over:
            serving = gateways()
            if not serving:
                await asyncio.sleep(_PAUSE)
                continue
            gateway = random.choice(serving)
            self.served_by = gateway.victim.pid
            self.returns += 1
            try:
                await self._read_from(session, gateway.url)
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                self.refusals[type(error).__name__] += 1
                await asyncio.sleep(_PAUSE)

    async def _read_from(self, session: aiohttp.ClientSession, url: str) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE, sock_read=_SILENCE)
        if not self.id:
            body = {"input": self.task, "stream": True, "store": True}
            headers = {"Idempotency-Key": self.task}
            request = session.post(f"{url}/v1/responses", json=body, headers=headers, timeout=timeout)
        else:
            query = {"stream": "true", "starting_after": str(len(self.events) - 1)}
            request = session.get(f"{url}/v1/responses/{self.id}", params=query, timeout=timeout)
        async with request as answer:
            if answer.status != 200:
                text = await answer.text()
                self.refusals[f"{answer.status} {_code_of(text)}"] += 1
                if answer.status not in (409, 429) and answer.status < 500:
                    self.faults.append(f"{self.task}: status {answer.status}: {text[:200]}")
                await asyncio.sleep(_PAUSE)
                return
            async for line in answer.content:
                if line.startswith(_EVENT) and not self._take(json.loads(line.removeprefix(b"data: "))):
                    return

    def _take(self, event: Any) -> bool:
        """Record an event. False if it is none of the response's: only this connection has failed."""
        if event["type"] == "error":
            self.refusals[f"error event {event.get('code')}"] += 1
            return False
        if event["sequence_number"] != len(self.events):
            self.faults.append(f"{self.task}: event {event['sequence_number']} came after {len(self.events)} events")
            return False
        self.events.append(event)
        self.id = self.events[0]["response"]["id"]
        return True


async def stored_events(session: aiohttp.ClientSession, url: str, id: str) -> list[Any]:
    """Return all events of a response as a new client reads them."""
    events: list[Any] = []
    async with session.get(f"{url}/v1/responses/{id}", params={"stream": "true"}) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if line.startswith(_EVENT):
                events.append(json.loads(line.removeprefix(b"data: ")))
    return events


def _code_of(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return text[:40]
