"""The day: its steps as a table, and the clock that takes each of them at its moment while clients send requests."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from lab.operate.budgets import EFFECTS, EVENING, MORNING, NOON, TENANT, Budget, lines_of
from lab.operate.gateway import WORKERS, Gateway
from lab.operate.kinds import CHAT_KEY, LEAVING, LEAVING_KEY, LEAVING_STREAM, PAYER_KEY, READER_KEY, SUM
from lab.operate.load import Load
from lab.operate.operator import (
    call,
    offered_tools,
    until,
    until_everywhere,
    until_known,
    until_ledger_answers,
    until_offered,
    until_refused,
)
from lab.operate.stage import Stage
from lab.operate.tool_file import BROKEN, SECOND_LIST

_SHOP: Final = "shop"
_KNOWN_SECONDS: Final = 5.0
"""Within how many seconds every process knows a changed key: docs/how-to/keys.md."""
_OVERLAP_SECONDS: Final = 60.0
_POSTGRES_AWAY_SECONDS: Final = 5.0
_STORE_ASKED_AGAIN_SECONDS: Final = 3.0
"""Longer than the second after which each process asks the store again: docs/how-to/quotas.md."""
_CREATED, _BAD_REQUEST, _OK = 201, 400, 200
_TOOLS_OF: Final = {CHAT_KEY: [], LEAVING_KEY: [], READER_KEY: ["get_*", "sums_*"], PAYER_KEY: ["pay"]}


@dataclass(frozen=True, slots=True)
class Moment:
    """A step that was taken: when, by `time.monotonic`, and what was seen."""

    name: str
    began: float
    ended: float
    note: str


@dataclass(slots=True)
class Day:
    """`keys` has the texts of the keys that clients use now, by name, and `key_ids` their ids."""

    stage: Stage
    load: Load
    keys: dict[str, str]
    budgets: dict[str, Budget]
    key_ids: dict[str, str] = field(default_factory=dict[str, str])
    operator: str = ""
    shop_admin: str = ""
    moments: list[Moment] = field(default_factory=list[Moment])
    breaches: list[str] = field(default_factory=list[str])
    """What a step saw that the documentation does not say."""
    expiring: list[str] = field(default_factory=list[str])
    """Keys that were rotated, and are refused at the end."""
    store_failures: dict[str, int] = field(default_factory=dict[str, int])
    """How often a process found Valkey away while a budget was used, by the budget's name."""
    _failures_before: dict[str, int] = field(default_factory=dict[str, int])
    refused_from: float = 0.0
    """From when on every process refuses the revoked key."""
    second_list_from: float = 0.0
    """From when on every process has the changed tool."""

    @property
    def gateways(self) -> list[Gateway]:
        return self.stage.gateways

    async def prepare(self) -> None:
        """Create the operator, and the tenant whose clients are there all day."""
        flags = ("--admin", "--operator", "--tools", "*", "--tenant", "operations")
        self.operator = await asyncio.to_thread(self.stage.create_key, "operator", *flags)
        flags = ("--admin", "--tools", "*", "--tenant", _SHOP)
        self.shop_admin = await asyncio.to_thread(self.stage.create_key, "admin", *flags)
        await until_known(self.gateways, self.shop_admin)
        for name, tools in _TOOLS_OF.items():
            await self.create_key(self.shop_admin, name, tools)
        await self.until_known(*(self.keys[name] for name in _TOOLS_OF))

    async def create_key(self, admin: str, name: str, tools: list[str]) -> None:
        status, made = await call(self.gateways[0], "POST", "/v1/keys", admin, {"name": name, "tools": tools})
        self.require(status == _CREATED, f"POST /v1/keys answered {status}: {made}")
        self.keys[name], self.key_ids[name] = made["key"], made["id"]

    async def until_known(self, *keys: str) -> None:
        """Wait as long as the documentation says, and until it is so."""
        await asyncio.sleep(_KNOWN_SECONDS)
        for key in keys:
            await until_known(self.gateways, key)

    async def reload(self, write: Callable[[], None]) -> None:
        """Change files, send SIGHUP to both gateways, and wait until all workers have reloaded."""
        before = {one.name: one.count("reloaded") for one in self.gateways}
        write()
        for gateway in self.gateways:
            gateway.signal(signal.SIGHUP)
        for gateway in self.gateways:
            await until(lambda gateway=gateway: gateway.count("reloaded") >= before[gateway.name] + WORKERS)

    def write_configs(self) -> None:
        for gateway in self.gateways:
            self.stage.write_config(gateway, lines_of(self.budgets.values()))

    async def until_sent(self, seconds: float) -> None:
        """Wait until so many seconds of the schedule have been sent."""
        wanted = len(self.load.exchanges) + seconds * self.load.rate
        await until(lambda: len(self.load.exchanges) >= wanted)

    def require(self, claim: bool, breach: str) -> None:
        if not claim:
            self.breaches.append(breach)

    async def run(self, seconds: float) -> None:
        """Take each step at its moment, or when the one before it has ended."""
        for step in STEPS:
            moment = self.load.began + step.at * seconds
            await asyncio.sleep(max(0.0, moment - time.monotonic()))
            began = time.monotonic()
            note = await step.take(self)
            self.moments.append(Moment(step.name, began, time.monotonic(), note))
        await self.until_used()
        for key in self.expiring:
            await until_refused(self.gateways, key, "key_expired")

    def use(self, name: str) -> None:
        """Let clients ask for a budget from now on."""
        self._failures_before[name] = self._count_store_failures()
        self.load.use(self.budgets[name])

    async def until_used(self) -> None:
        """Wait until all that is to be asked for of the budgets in use has been."""
        for use in self.load.uses:
            await use.is_done.wait()
            name = use.budget.name
            if name not in self.store_failures:
                self.store_failures[name] = self._count_store_failures() - self._failures_before[name]

    def _count_store_failures(self) -> int:
        return sum(one.count("quota_store_failed") for one in self.gateways)


async def create_tenant(day: Day) -> str:
    flags = ("--admin", "--tools", "*", "--tenant", TENANT)
    admin = await asyncio.to_thread(day.stage.create_key, "admin", *flags)
    await until_known(day.gateways, admin)
    for budget in day.budgets.values():
        await day.create_key(admin, budget.name, ["pay"] if budget.kind.has_effect else [])
    await day.reload(day.write_configs)
    await day.until_known(*(day.keys[name] for name in day.budgets))
    day.use(MORNING)
    day.use(EFFECTS)
    return f"{1 + len(day.budgets)} keys, {len(day.budgets)} quotas"


async def rotate_key(day: Day) -> str:
    old, id = day.keys[CHAT_KEY], day.key_ids[CHAT_KEY]
    body: dict[str, Any] = {"overlap_seconds": _OVERLAP_SECONDS}
    status, made = await call(day.gateways[0], "POST", f"/v1/keys/{id}/rotate", day.shop_admin, body)
    day.require(status in (_OK, _CREATED), f"the rotation answered {status}: {made}")
    await day.until_known(made["key"])
    day.keys[CHAT_KEY], day.key_ids[CHAT_KEY] = made["key"], made["id"]
    day.expiring.append(old)
    return f"clients use the new one; the old one expires after {_OVERLAP_SECONDS:.0f} s and is refused then"


async def revoke_key(day: Day) -> str:
    began = time.monotonic()
    path = f"/v1/keys/{day.key_ids[LEAVING_KEY]}/revoke"
    status, body = await call(day.gateways[0], "POST", path, day.shop_admin)
    day.require(status == _OK, f"the revocation answered {status}: {body}")
    await until_refused(day.gateways, day.keys[LEAVING_KEY], "key_revoked")
    await asyncio.sleep(max(0.0, began + _KNOWN_SECONDS - time.monotonic()))
    day.refused_from = time.monotonic()
    # The client that has it goes on for a while: from here on each of its requests must be refused.
    await day.until_sent(2)
    day.load.kinds.remove(LEAVING)
    day.load.kinds.remove(LEAVING_STREAM)
    return "every process refuses it"


async def change_tool(day: Day) -> str:
    await day.reload(lambda: day.stage.write_tools(SECOND_LIST))
    day.second_list_from = time.monotonic()
    return "SIGHUP; all four workers run the changed function"


async def add_server(day: Day) -> str:
    day.stage.write_mcp(has_server=True)
    for gateway in day.gateways:
        status, body = await call(gateway, "POST", "/v1/reload", day.operator)
        day.require(status == _OK, f"the reload answered {status}: {body}")
    await until_offered(day.gateways, day.keys[READER_KEY], "sums_add")
    day.load.kinds.append(SUM)
    return "POST /v1/reload; its tool is called from now on"


async def break_configuration(day: Day) -> str:
    first, second = day.gateways
    before = [await offered_tools(one, day.keys[READER_KEY]) for one in day.gateways]
    first.file.write_text("[server\n", encoding="utf-8")
    status, body = await call(first, "POST", "/v1/reload", day.operator)
    day.require(status == _BAD_REQUEST, f"the reload of a broken file answered {status}: {body}")
    failures = second.count("reload_failed")
    day.stage.tools.write_text(BROKEN, encoding="utf-8")
    second.signal(signal.SIGHUP)
    await until(lambda: second.count("reload_failed") >= failures + WORKERS)
    await day.until_sent(2)
    after = [await offered_tools(one, day.keys[READER_KEY]) for one in day.gateways]
    day.require(before == after, f"broken files have changed the tools: {before}, {after}")

    def mend() -> None:
        day.stage.write_tools(SECOND_LIST)
        day.write_configs()

    await day.reload(mend)
    return "a broken ferrule.toml: 400; a tools file that raises: `reload_failed` twice; nothing changed"


async def roll_workers(day: Day) -> str:
    for gateway in day.gateways:
        for number, process in sorted(gateway.workers().items()):
            os.kill(process, signal.SIGTERM)

            def is_back(gateway: Gateway = gateway, number: int = number, process: int = process) -> bool:
                now = gateway.workers()[number]
                return now != process and now in gateway.serving()

            await until(is_back)
    return f"SIGTERM to each of {WORKERS * len(day.gateways)} workers, the next when the new one serves"


async def stop_valkey(day: Day) -> str:
    # What was counted is lost with the store, which keeps nothing on disk: these budgets must be used up before.
    await day.until_used()
    await asyncio.to_thread(day.stage.valkey.stop)
    stopped = time.monotonic()
    day.use(NOON)
    await day.until_used()
    await asyncio.to_thread(day.stage.valkey.start)
    away = time.monotonic() - stopped
    await asyncio.sleep(_STORE_ASKED_AGAIN_SECONDS)
    day.use(EVENING)
    return f"killed, and back empty after {away:.0f} s"


async def stop_postgres(day: Day) -> str:
    stopped = time.monotonic()
    await asyncio.to_thread(day.stage.postgres.stop, "immediate")
    await asyncio.sleep(_POSTGRES_AWAY_SECONDS)
    await asyncio.to_thread(day.stage.postgres.start)
    away = time.monotonic() - stopped
    await until_ledger_answers(day.gateways)
    return f"stopped like a crash, and back after {away:.0f} s"


async def drain_gateway(day: Day) -> str:
    gateway = day.gateways[1]
    began = time.monotonic()
    code = await asyncio.to_thread(gateway.drain)
    seconds = time.monotonic() - began
    day.require(code == 0, f"the drained gateway ended with exit code {code}")
    await day.until_sent(5)
    await asyncio.to_thread(gateway.start)
    await until_everywhere([gateway], _is_ready)
    await day.until_sent(5)
    return f"exit code {code} after {seconds:.1f} s; started again"


async def _is_ready(gateway: Gateway) -> bool:
    return (await call(gateway, "GET", "/readyz"))[0] == _OK


@dataclass(frozen=True, slots=True)
class Step:
    """`at` is its moment, as a part of the day."""

    name: str
    at: float
    take: Callable[[Day], Awaitable[str]]


TENANT_CREATED, KEY_ROTATED, KEY_REVOKED = "create a tenant, keys and budgets", "rotate a key", "revoke a key"
TOOL_CHANGED, SERVER_ADDED, CONFIGURATION_BROKEN = "change a tool", "add an MCP server", "break the configuration"
WORKERS_ROLLED, VALKEY_STOPPED = "roll the workers", "stop Valkey"
POSTGRES_STOPPED, GATEWAY_DRAINED = "stop and start Postgres", "drain a gateway"
STEPS: Final = (
    Step(TENANT_CREATED, 0.03, create_tenant),
    Step(KEY_ROTATED, 0.10, rotate_key),
    Step(KEY_REVOKED, 0.18, revoke_key),
    Step(TOOL_CHANGED, 0.24, change_tool),
    Step(SERVER_ADDED, 0.30, add_server),
    Step(CONFIGURATION_BROKEN, 0.38, break_configuration),
    Step(WORKERS_ROLLED, 0.46, roll_workers),
    Step(VALKEY_STOPPED, 0.58, stop_valkey),
    Step(POSTGRES_STOPPED, 0.74, stop_postgres),
    Step(GATEWAY_DRAINED, 0.86, drain_gateway),
)
