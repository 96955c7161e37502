"""Quotas: counts what callers use, and refuses what is beyond a quota.

Requests and calls are counted before they begin, all or none. What only the end of an answer says, its tokens and its
price, is added then: a request begins while anything is left, and the answer that uses up a quota is finished.

While a shared store is away, each process counts its own part, or refuses: see `QuotaStoreConfig`. It is asked again
after a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ferrule.core.context import Principal, matches
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FerruleError, QuotaError, QuotaStoreError
from ferrule.server.config.config import Config
from ferrule.server.config.quotas import QuotaConfig, QuotaFallback, QuotaScope, QuotaUnit
from ferrule.server.quotas.charge import Charge, QuotaUse
from ferrule.server.quotas.rate_headers import rate_headers
from ferrule.server.quotas.store import MemoryQuotaStore, QuotaStore, Taken
from ferrule.server.quotas.valkey_store import ValkeyQuotaStore

_AWAY_SECONDS = 1.0
_MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class _PrincipalQuotas:
    """The quotas of a principal, and what each of its requests is charged."""

    quotas: tuple[QuotaConfig, ...]
    request_charges: tuple[Charge, ...]


@dataclass(slots=True)
class Quotas:
    """The quotas of a gateway. `on_refusal` is called with the name of a quota that refused something."""

    config: Config
    on_refusal: Callable[[str], None] = lambda name: None
    on_failure: Callable[[FerruleError], None] = lambda error: None
    clock: Callable[[], float] = time.time
    store: QuotaStore | None = None
    """Shared by all processes; None if each counts its part."""
    _local: MemoryQuotaStore = field(init=False)
    _away_until: float = 0.0
    _is_away: bool = False
    _known: dict[tuple[str, str], _PrincipalQuotas] = field(default_factory=dict[tuple[str, str], _PrincipalQuotas])
    """Which quotas a principal has, by name and tenant."""
    _additions: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def __post_init__(self) -> None:
        settings = self.config.quota_store
        self._local = MemoryQuotaStore(self.config.server.workers * settings.replicas)
        if settings.address and self.store is None:
            self.store = ValkeyQuotaStore(settings.address)

    def set_config(self, config: Config) -> None:
        """Take up other quotas. What was counted for those of the same name stays."""
        self.config, self._known = config, {}

    async def close(self) -> None:
        await asyncio.gather(*self._additions, return_exceptions=True)
        if self.store is not None:
            await self.store.close()

    async def admit_request(self, principal: Principal) -> tuple[QuotaUse, ...]:
        """Count a request for a model. Raises `QuotaError` if a quota is used up. Returns what is used of each."""
        charges = self._known_quotas_of(principal).request_charges
        return await self._take(charges, principal) if charges else ()

    async def admit_call(self, principal: Principal, tool: ToolDefinition) -> tuple[Charge, ...]:
        """Count a call of a tool. Raises `QuotaError` if a quota is used up. Returns what was counted."""
        charges = [
            Charge(one, _owner(one, principal, tool.name), 1.0)
            for one in self._quotas_of(principal)
            if one.counts.is_of_tools
            and (tool.side_effects or one.counts is QuotaUnit.CALLS)
            and _matches(tool.name, one.tools)
        ]
        if charges:
            await self._take(charges, principal)
        return tuple(charges)

    def give_back(self, charges: Sequence[Charge]) -> None:
        """Take back what was counted for a call that did not begin."""
        self._add_later([replace(one, amount=-one.amount) for one in charges])

    def spend(self, principal: Principal, tokens: int, money: float) -> None:
        """Add what an answer has used. It is written behind the answer."""
        amounts = {QuotaUnit.TOKENS: float(tokens), QuotaUnit.MONEY: money}
        charges = self._known_quotas_of(principal).request_charges
        self._add_later(
            [replace(one, amount=amount) for one in charges if (amount := amounts.get(one.quota.counts, 0.0))]
        )

    async def uses(self, principal: Principal) -> tuple[QuotaUse, ...]:
        """Return what a principal has used of each of its quotas, except those of single tools."""
        charges = [
            Charge(one, _owner(one, principal)) for one in self._quotas_of(principal) if one.each is not QuotaScope.TOOL
        ]
        now = self.clock()
        store = self._current()
        try:
            used = await store.used(charges, now)
        except QuotaStoreError as error:
            self._note_failure(error)
            used = await self._local.used(charges, now)
        return _uses(charges, used, now)

    def _quotas_of(self, principal: Principal) -> tuple[QuotaConfig, ...]:
        return self._known_quotas_of(principal).quotas

    def _known_quotas_of(self, principal: Principal) -> _PrincipalQuotas:
        key = (principal.name, principal.tenant)
        known = self._known.get(key)
        if known is None:
            quotas = tuple(
                one
                for one in self.config.quotas
                if _matches(principal.name, one.keys) and _matches(principal.tenant, one.tenants)
            )
            charges = tuple(
                Charge(one, _owner(one, principal), 0.0 if one.counts.is_known_later else 1.0)
                for one in quotas
                if not one.counts.is_of_tools
            )
            known = _PrincipalQuotas(quotas, charges)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known

    async def _take(self, charges: Sequence[Charge], principal: Principal) -> tuple[QuotaUse, ...]:
        now = self.clock()
        try:
            taken = await self._current().take(charges, now)
            self._is_away = self._is_away and self._current() is self._local
        except QuotaStoreError as error:
            taken = await self._take_without_store(charges, now, error)
        uses = _uses(charges, taken.used, now)
        if taken.refused is not None:
            use = uses[taken.refused]
            self.on_refusal(use.quota.name)
            raise _quota_error(use, _owner_text(use.quota, principal))
        return uses

    async def _take_without_store(self, charges: Sequence[Charge], now: float, error: QuotaStoreError) -> Taken:
        self._note_failure(error)
        if self.config.quota_store.when_away is QuotaFallback.REFUSE:
            raise error
        return await self._local.take(charges, now)

    def _current(self) -> QuotaStore:
        if self.store is None:
            return self._local
        may_divide = self.config.quota_store.when_away is QuotaFallback.DIVIDE
        return self._local if may_divide and time.monotonic() < self._away_until else self.store

    def _note_failure(self, error: QuotaStoreError) -> None:
        """Report it once for each time that the store is away."""
        self._away_until = time.monotonic() + _AWAY_SECONDS
        if not self._is_away:
            self.on_failure(error)
        self._is_away = True

    def _add_later(self, charges: Sequence[Charge]) -> None:
        if not charges:
            return
        if self._current() is self._local:
            self._local.add_now(charges, self.clock())
            return
        task = asyncio.ensure_future(self._add(charges, self.clock()))
        self._additions.add(task)
        task.add_done_callback(self._additions.discard)

    async def _add(self, charges: Sequence[Charge], now: float) -> None:
        try:
            await self._current().add(charges, now)
        except QuotaStoreError as error:
            self._note_failure(error)
            await self._local.add(charges, now)


def _quota_error(use: QuotaUse, owner: str) -> QuotaError:
    quota = use.quota
    return QuotaError(
        f"{owner} has used up the quota {quota.name!r}: {quota.most:,g} {quota.counts} per {quota.per}",
        retry_after=use.seconds_left,
        headers=rate_headers([use]),
        hint=f"It begins anew in {max(1, round(use.seconds_left))} s; or raise the quota.",
    )


def _owner(quota: QuotaConfig, principal: Principal, tool: str = "") -> str:
    """Whose counter it is. Its parts are lengths and texts, so that no two owners share one."""
    parts = {
        QuotaScope.KEY: (principal.tenant, principal.name),
        QuotaScope.TENANT: (principal.tenant,),
        QuotaScope.TOOL: (principal.tenant, tool),
        QuotaScope.GATEWAY: (),
    }[quota.each]
    return "".join(f"{len(part)}:{part}" for part in parts)


def _owner_text(quota: QuotaConfig, principal: Principal) -> str:
    match quota.each:
        case QuotaScope.KEY:
            return f"the key {principal.name!r}"
        case QuotaScope.TENANT:
            return f"the tenant {principal.tenant!r}"
        case QuotaScope.TOOL:
            return "the tool"
        case QuotaScope.GATEWAY:
            return "the gateway"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(matches(f"any:{name}", f"any:{pattern}") for pattern in patterns)


def _uses(charges: Sequence[Charge], used: Sequence[float], now: float) -> tuple[QuotaUse, ...]:
    return tuple(QuotaUse(one.quota, held, one.seconds_left(now)) for one, held in zip(charges, used, strict=True))
