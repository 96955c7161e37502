"""ValkeyQuotaStore: counts in a Valkey or Redis server, for all workers and replicas.

One script adds a request's charges, or none of them: the server runs scripts one after the other. A counter expires a
while after its period, which a process whose clock is late may still count in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from ferrule.errors import DefinitionError, QuotaStoreError
from ferrule.server.quotas.charge import Charge
from ferrule.server.quotas.store import Taken

SCHEMES = {"valkey": "redis", "valkeys": "rediss", "redis": "redis", "rediss": "rediss", "unix": "unix"}
_PREFIX = "{ferrule-quota}:"
"""The braces keep all counters on one node of a cluster: a script cannot reach others."""
_KEPT_SECONDS = 60
_TIMEOUT_SECONDS = 1.0
_CONNECTIONS = 16
"""Of each process. Requests beyond that wait for a free one."""
_TAKE = """
local held, refused = {}, 0
for i, key in ipairs(KEYS) do
  held[i] = redis.call('GET', key) or '0'
  local used, amount, most = tonumber(held[i]), tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1])
  if refused == 0 and (amount == 0 and used >= most or used + amount > most) then refused = i end
end
if refused == 0 then
  for i, key in ipairs(KEYS) do
    if tonumber(ARGV[3 * i - 2]) ~= 0 then
      held[i] = redis.call('INCRBYFLOAT', key, ARGV[3 * i - 2])
      redis.call('EXPIRE', key, ARGV[3 * i])
    end
  end
end
return {refused, unpack(held)}
"""
_ADD = """
for i, key in ipairs(KEYS) do
  redis.call('INCRBYFLOAT', key, ARGV[2 * i - 1])
  redis.call('EXPIRE', key, ARGV[2 * i])
end
"""


class ValkeyQuotaStore:
    """`address` is `valkey://host:port/database`; `valkeys://` uses TLS."""

    def __init__(self, address: str) -> None:
        try:
            import redis.asyncio as client
            from redis.exceptions import RedisError
        except ImportError as error:
            raise DefinitionError(
                "a shared quota store needs the package redis",
                code="missing_package",
                hint='pip install "ferrule[valkey]"',
            ) from error
        scheme, _, rest = address.partition("://")
        if scheme not in SCHEMES:
            raise DefinitionError(
                f"the quota store has no known scheme: {scheme!r:.40}", hint="Write valkey://HOST:PORT/0."
            )
        self._errors = (RedisError, OSError, TimeoutError)
        library = cast("Any", client)
        pool = library.BlockingConnectionPool.from_url(
            f"{SCHEMES[scheme]}://{rest}",
            max_connections=_CONNECTIONS,
            # `_ask` limits all of it at once. Each of these would start a timer, and with it a task for every write.
            timeout=None,
            socket_timeout=None,
            socket_connect_timeout=None,
            decode_responses=True,
            # A second attempt could count a second time.
            retry=None,
        )
        self._client = library.Redis.from_pool(pool)
        self._take = self._client.register_script(_TAKE)
        self._add = self._client.register_script(_ADD)

    async def take(self, charges: Sequence[Charge], now: float) -> Taken:
        arguments: list[float | int] = []
        for one in charges:
            arguments += [one.amount, one.quota.most, _expiry(one, now)]
        refused, *held = await self._ask(self._take(keys=_names(charges, now), args=arguments))
        return Taken(int(refused) - 1 if int(refused) else None, tuple(map(float, held)))

    async def add(self, charges: Sequence[Charge], now: float) -> None:
        arguments: list[float | int] = []
        for one in charges:
            arguments += [one.amount, _expiry(one, now)]
        await self._ask(self._add(keys=_names(charges, now), args=arguments))

    async def used(self, charges: Sequence[Charge], now: float) -> tuple[float, ...]:
        held = await self._ask(self._client.mget(_names(charges, now))) if charges else ()
        return tuple(max(0.0, float(one or 0)) for one in held)

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(self, answer: Any) -> Any:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return await answer
        except self._errors as error:
            raise QuotaStoreError(
                f"the quota store does not answer: {type(error).__name__}", hint="Retry later."
            ) from error


def _names(charges: Sequence[Charge], now: float) -> list[str]:
    return [_PREFIX + one.counter_at(now) for one in charges]


def _expiry(charge: Charge, now: float) -> int:
    return int(charge.seconds_left(now)) + _KEPT_SECONDS
