"""Bus: tools that run elsewhere, as capabilities on NATS, called with the caller's own rights.

Must not know who serves them or how. A call that nobody took may be tried again, and is, by drawing another worker; a
call that was taken and not answered is unknown, and is never sent a second time from here.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import AuthorityError, BusError, BusUnavailableError
from ferrule.sources.bus.connection import DEFAULT_URL, Connection, Message
from ferrule.sources.bus.frame import MINOR, TOKEN, Beat, Frame, Lost, Nobody, Refused, request_body
from ferrule.sources.bus.micro import Found, info_subject, read_counts, read_definition, read_info, stats_subject
from ferrule.sources.bus.names import Names
from ferrule.sources.bus.request_reply import SILENCE, Exchange, Tell
from ferrule.sources.bus.subject import (
    Capability,
    changes_subject,
    definition_subject,
    service_name,
)
from ferrule.sources.bus.token import LOCAL, checked_key, signed
from ferrule.sources.source import Source
from ferrule.sources.status import Standing, Trust

DRAWS = 8
# Workers of one server need not all have the same tools; who has not got it says so in a moment.
_ABSENT_DRAWS = 64
_PAUSE = 0.001
_DEADLINE_SECONDS = 120.0
_FRESH_SECONDS = 5.0
_POLL_SECONDS = 15.0
_FETCHED_AT_ONCE = 16


class Bus(Source):
    """The capabilities of one tenant.

    `bindings` are tools of your own making, each bound to a capability; without them every capability is offered as
    its worker describes it. `key` signs the caller's token; without one there is only the tenant "local".
    """

    kind = "bus"

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        id: str = "bus",
        tenant: str = LOCAL,
        key: bytes | None = None,
        bindings: Iterable[ToolDefinition] | None = None,
        credentials: str = "",
        inbox: str = "",
        silence: float = SILENCE,
        draws: int = DRAWS,
    ) -> None:
        self.id = id
        self.tenant = tenant
        self.connection = Connection(url, credentials, f"ferrule-{id}", inbox)
        self._key = checked_key(key)
        self._exchange = Exchange(self.connection, silence=silence)
        self._draws = draws
        self._names = Names(bindings)
        self._definitions: dict[str, ToolDefinition] = {}
        # So that a thousand definitions, asked for at once, do not make each other late.
        self._fetching = asyncio.Semaphore(_FETCHED_AT_ONCE)
        self._served: dict[Capability, ToolDefinition] = {}
        self._looked = float("-inf")
        self._times_told = 0
        self._changed = asyncio.Event()

    async def open(self) -> None:
        await self.connection.open()
        await self._exchange.open()
        await self.connection.receive(changes_subject(self.tenant), self._on_change)

    async def close(self) -> None:
        await self._exchange.close()
        await self.connection.close()

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Whoever may speak on the bus is believed, unless the definitions are of one's own making."""
        state, why = self.connection.standing
        trust = Trust.OWN if self._names.are_bound else Trust.TRUSTED
        return (Standing(self.id, self.kind, trust, state, why),)

    async def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that are served now, as of a moment ago."""
        return self._names.offer(await self.served())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        capability = self._names.capability_of(name)
        if capability is None:
            try:
                await self.tools()
            except BusUnavailableError as problem:
                return NotDelivered(problem.message, code=problem.code)
            capability = self._names.capability_of(name)
        if capability is None:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await self.call_capability(capability, arguments, context)

    async def call_capability(
        self, capability: Capability, arguments: Mapping[str, Any], context: CallContext
    ) -> Outcome:
        """Runs a capability by its own name. Rights are checked here first: NATS would refuse by silence."""
        refusal = self._refusal_of(capability, context)
        if refusal is not None:
            return refusal
        deadline = time.time() + _DEADLINE_SECONDS if context.deadline is None else context.deadline
        headers = {TOKEN: signed(context, self._key, deadline, os.urandom(8).hex())}
        if capability.minor:
            headers[MINOR] = str(capability.minor)
        body = request_body(arguments)
        return await self._drawn(capability.subject(self.tenant), body, headers, deadline, context.tell)

    async def changes(self) -> AsyncGenerator[None]:
        """Yields when a worker says that it came or goes, and when a look finds another list than before."""
        known = await self.tools()
        while True:
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass
            told = self._changed.is_set()
            self._changed.clear()
            self._looked = float("-inf")
            try:
                now = await self.tools()
            except BusUnavailableError:
                now = known
            if told or now != known:
                yield
            known = now

    async def discovered(self) -> list[Found]:
        """What each worker of the tenant says it serves."""
        found: list[Found] = []
        for message in await self._asked(info_subject(service_name(self.tenant))):
            try:
                told = read_info(message.data)
            except BusError:
                # Anybody may answer discovery; what is no document of the protocol is nobody's capability.
                continue
            found += [one for one in told if one.subject == one.capability.subject(self.tenant)]
        return found

    async def counts(self) -> Counter[tuple[str, str]]:
        """Requests and errors since the workers began, as ("requests", subject) and ("errors", subject)."""
        counted: Counter[tuple[str, str]] = Counter()
        for message in await self._asked(stats_subject(service_name(self.tenant))):
            try:
                told = read_counts(message.data)
            except BusError:
                continue
            for subject, (requests, errors) in told.items():
                counted["requests", subject] += requests
                counted["errors", subject] += errors
        return counted

    async def served(self) -> dict[Capability, ToolDefinition]:
        """Each capability's definition, as of a moment ago: of every major version the newest minor one."""
        if time.monotonic() - self._looked <= _FRESH_SECONDS:
            return self._served
        told_before = self._times_told
        newest: dict[tuple[str, int], Found] = {}
        for found in sorted(await self.discovered(), key=lambda one: (one.capability.minor, one.fingerprint)):
            newest[found.capability.name, found.capability.major] = found
        known = await asyncio.gather(*(self._definition(found) for found in newest.values()))
        pairs = zip(newest.values(), known, strict=True)
        self._served = {found.capability: tool for found, tool in pairs if tool is not None}
        # A worker that came or went while the answers were gathered may be in them or not: look again next time.
        self._looked = time.monotonic() if told_before == self._times_told else float("-inf")
        return self._served

    async def definition_of(self, wanted: Capability) -> tuple[Capability, ToolDefinition] | None:
        """The served capability that does what is wanted, and its definition; None where there is none."""
        for capability, tool in (await self.served()).items():
            if capability.serves(wanted):
                return capability, tool
        return None

    async def _asked(self, subject: str) -> list[Message]:
        return await self.connection.gather(subject)

    async def _definition(self, found: Found) -> ToolDefinition | None:
        """A definition by its hash, fetched once: what a hash names never changes."""
        known = self._definitions.get(found.fingerprint)
        if known is not None:
            return known
        subject = definition_subject(self.tenant, found.capability.server, found.fingerprint)
        for _ in range(_ABSENT_DRAWS):
            async with self._fetching:
                messages = await self.connection.gather(subject, least=1)
            if not messages:
                return None
            try:
                tool = read_definition(messages[0].data, found.fingerprint)
            except BusError:
                # Another worker of the same server, with another version, was drawn.
                continue
            if (tool.bound_capability, tool.bound_version) == (found.capability.name, found.capability.version):
                self._definitions[found.fingerprint] = tool
                return tool
        return None

    def _refusal_of(self, capability: Capability, context: CallContext) -> Outcome | None:
        try:
            if context.principal.tenant != self.tenant:
                raise AuthorityError(f"{context.principal.name} is not of the tenant {self.tenant!r}")
            context.principal.require(capability.name)
        except AuthorityError as refusal:
            return Answered(f"{refusal.code}: {refusal.message}", is_error=True, code=refusal.code)
        return None

    async def _drawn(
        self, subject: str, body: bytes, headers: Mapping[str, str], deadline: float, tell: Tell
    ) -> Outcome:
        """The outcome from the first worker that takes the call. Each refusal is proof that it did not run."""
        frame: Frame = Nobody()
        busy = absent = 0
        while busy < self._draws and absent < _ABSENT_DRAWS:
            seconds = deadline - time.time()
            if seconds <= 0:
                return NotDelivered("the deadline passed before anybody took it", code="timeout")
            frame = await self._exchange.ask(subject, body, headers, seconds, tell)
            match frame:
                case Answered():
                    return frame
                case Lost(reason, code):
                    return Unknown(reason, code=code)
                case Refused(status=404):
                    absent += 1
                case Refused(status=429):
                    await asyncio.sleep(_PAUSE * 2**busy)
                    busy += 1
                case Refused() if not self.connection.carries(body, headers):
                    told = f"arguments of {len(body)} bytes are more than the bus carries"
                    return NotDelivered(told, code="bad_request")
                case Refused(code, reason):
                    return NotDelivered(reason, code=code)
                case Nobody() | Beat():
                    return NotDelivered("nobody serves it")
        told = frame.reason if isinstance(frame, Refused) else "nobody took it"
        code = frame.code if isinstance(frame, Refused) else "not_delivered"
        return NotDelivered(f"{told} (asked {busy + absent} times)", code=code)

    async def _on_change(self, message: Message) -> None:
        self._looked = float("-inf")
        self._times_told += 1
        self._changed.set()
