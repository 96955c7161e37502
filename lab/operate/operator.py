"""What the operator asks gateways directly, each time on a new connection, so that any worker may answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import aiohttp

from lab.operate.gateway import Gateway

PATIENCE: Final = 300.0
"""Seconds. Not a measure of speed: it only ends a step that would wait forever."""
_IN_A_ROW: Final = 24
"""How often in a row something must be true of a gateway to count as true of each of its workers."""
_PAUSE: Final = 0.05
_OK: Final = 200


async def call(
    gateway: Gateway, method: str, path: str, key: str = "", body: dict[str, Any] | None = None
) -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    connector = aiohttp.TCPConnector(force_close=True)
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        session.request(method, gateway.url + path, headers=headers, json=body) as answer,
    ):
        return answer.status, await answer.json()


async def until(claim: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(PATIENCE):
        while not claim():
            await asyncio.sleep(_PAUSE)


async def until_everywhere(gateways: Iterable[Gateway], claim: Callable[[Gateway], Awaitable[bool]]) -> None:
    """Wait until a condition is true of every worker of the gateways, as far as can be seen from outside."""
    async with asyncio.timeout(PATIENCE):
        for gateway in gateways:
            in_a_row = 0
            while in_a_row < _IN_A_ROW:
                in_a_row = in_a_row + 1 if await claim(gateway) else 0
                await asyncio.sleep(_PAUSE / 2 if in_a_row else _PAUSE)


async def until_known(gateways: Iterable[Gateway], key: str) -> None:
    async def is_known(gateway: Gateway) -> bool:
        return (await call(gateway, "GET", "/v1/models", key))[0] == _OK

    await until_everywhere(gateways, is_known)


async def until_refused(gateways: Iterable[Gateway], key: str, code: str) -> None:
    async def is_refused(gateway: Gateway) -> bool:
        status, body = await call(gateway, "GET", "/v1/models", key)
        return status != _OK and body["error"]["code"] == code

    await until_everywhere(gateways, is_refused)


async def until_offered(gateways: Iterable[Gateway], key: str, tool: str) -> None:
    async def is_offered(gateway: Gateway) -> bool:
        return tool in await offered_tools(gateway, key)

    await until_everywhere(gateways, is_offered)


async def until_ledger_answers(gateways: Iterable[Gateway]) -> None:
    async def answers(gateway: Gateway) -> bool:
        return (await call(gateway, "GET", "/readyz"))[1].get("ledger") == "answers"

    await until_everywhere(gateways, answers)


async def offered_tools(gateway: Gateway, key: str) -> set[str]:
    return {one["name"] for one in (await call(gateway, "GET", "/v1/tools", key))[1]["data"]}
