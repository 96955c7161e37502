"""Worker: serves any source of tools on the bus, as capabilities. Knows nothing of models, loops or approvals.

It takes as many calls at once as its cap and answers the others BUSY at once, so that they go where there is room. It
believes nothing that a caller says of himself unless the token says it, checks the arguments again, and tells every
second that a call still runs.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import AuthorityError, BusError, FerruleError
from ferrule.schema.admission import admit
from ferrule.schema.checker import Checker
from ferrule.sources.bus.active_calls import BEAT_SECONDS, Breakdowns, RunningCall, RunningCalls
from ferrule.sources.bus.connection import DEFAULT_URL, Connection, Message
from ferrule.sources.bus.deduplication import Once, key_of
from ferrule.sources.bus.frame import (
    ABSENT,
    BUSY,
    LATE,
    TOKEN,
    Frame,
    Lost,
    Refused,
    is_surely_plain,
    read_minor,
    read_request,
    written,
)
from ferrule.sources.bus.micro import QUEUE, Endpoint, Identity, control_subjects, definition_bytes, documents
from ferrule.sources.bus.subject import (
    Capability,
    changes_subject,
    definition_wanted,
    server_wildcard,
    service_name,
)
from ferrule.sources.bus.token import LOCAL, checked_key, verified
from ferrule.sources.source import Source
from ferrule.sources.tool_output import shaped

CAP = 16
_GRACE_SECONDS = 30.0
_BREAKDOWNS = Breakdowns()
_BROKEN = Lost("the worker failed or was stopped while it ran", code="internal_error")


@dataclass(frozen=True, slots=True)
class _Served:
    endpoint: Endpoint
    name: str
    """The source's own name of the tool."""
    checker: Checker


class Worker:
    """Open it to serve; close it to stop: what runs is finished, and what is still queued is answered BUSY."""

    def __init__(
        self,
        source: Source,
        url: str = DEFAULT_URL,
        *,
        server: str = "tools",
        tenant: str = LOCAL,
        key: bytes | None = None,
        cap: int = CAP,
        metadata: Mapping[str, str] | None = None,
        credentials: str = "",
        beat: float = BEAT_SECONDS,
        grace: float = _GRACE_SECONDS,
    ) -> None:
        self.connection = Connection(url, credentials, f"ferrule-worker-{server}")
        self._source = source
        self._server, self._tenant = server, tenant
        self._key = checked_key(key)
        self._cap, self._grace = cap, grace
        told = {"server": server, **(metadata or {})}
        self._identity = Identity(secrets.token_hex(11), service_name(tenant), _version(), told, time.time())
        self.notices: list[str] = []
        """What a person should know: a tool that is not served, and why."""
        self._served: dict[str, _Served] = {}
        self._definitions: dict[str, bytes] = {}
        self._subscribed: set[str] = set()
        self._running = RunningCalls(self._say, beat=beat)
        self._once = Once()
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        return tuple(sorted(served.endpoint.capability for served in self._served.values()))

    async def open(self) -> None:
        async with AsyncExitStack() as undone:
            await self._source.open()
            undone.push_async_callback(self._source.close)
            await self.connection.open()
            undone.push_async_callback(self.connection.close)
            for verb, subject in control_subjects(self._identity):
                await self.connection.receive(subject, self._telling(verb))
            await self._serve_tools()
            undone.pop_all()
        self._tasks = [asyncio.create_task(self._running.beating()), asyncio.create_task(self._following())]

    async def close(self) -> None:
        self._is_stopping = True
        await self.connection.stop_receiving()
        await self.connection.send(changes_subject(self._tenant))
        await self._running.finished(self._grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.connection.close()
        await self._source.close()

    async def __aenter__(self) -> Worker:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _serve_tools(self) -> None:
        """Reads the source's tools, and subscribes once to each server name that they bring."""
        served: dict[str, _Served] = {}
        self.notices = []
        for tool in await self._source.tools():
            try:
                one = self._made(tool)
            except FerruleError as refusal:
                self.notices.append(f"{tool.name} is not served: {refusal.message}")
                continue
            other = served.setdefault(one.endpoint.subject, one)
            if other is not one:
                self.notices.append(
                    f"{tool.name} is not served: {other.name} is {one.endpoint.capability.name} already"
                )
        self._served = served
        endpoints = [one.endpoint for one in served.values()]
        self._definitions = {one.fingerprint: definition_bytes(one.definition) for one in endpoints}
        wanted = {server_wildcard(self._tenant, one.endpoint.capability.server) for one in served.values()}
        for subject in sorted(wanted - self._subscribed):
            await self.connection.receive(subject, self._asked, QUEUE)
        self._subscribed |= wanted
        await self.connection.flush()
        await self.connection.send(changes_subject(self._tenant))

    def _made(self, tool: ToolDefinition) -> _Served:
        capability = Capability.read(tool.bound_capability or f"{self._server}.{tool.name}", tool.bound_version)
        shown = replace(tool, bound_capability=capability.name, bound_version=capability.version)
        subject = capability.subject(self._tenant)
        endpoint = Endpoint(capability, subject, shown, shown.fingerprint)
        known = self._served.get(subject)
        if known is not None:
            counted = known.endpoint
            endpoint.requests, endpoint.errors, endpoint.seconds = counted.requests, counted.errors, counted.seconds
        return _Served(endpoint, tool.name, Checker(admit(tool.parameters)))

    async def _following(self) -> None:
        async for _ in self._source.changes():
            await self._serve_tools()

    def _telling(self, verb: str) -> Any:
        async def told(message: Message) -> None:
            if not message.reply:
                return
            for document in documents(verb, self._identity, (one.endpoint for one in self._served.values())):
                await self.connection.send(message.reply, document)

        return told

    async def _asked(self, message: Message) -> None:
        """Every request comes through here, one after the other: nothing in it waits for a tool."""
        if not message.reply:
            return
        served = self._served.get(message.subject)
        if served is None:
            await self._not_served(message)
            return
        if self._is_stopping or len(self._running) >= self._cap:
            await self._say(message.reply, BUSY)
            return
        served.endpoint.requests += 1
        running = self._running.new(message.reply)
        try:
            if read_minor(message.headers) > served.endpoint.capability.minor:
                await self._say(message.reply, ABSENT)
                return
            context = self._context_of(message, served.endpoint.capability, running)
            arguments = read_request(message.data)
        except FerruleError as refusal:
            await self._end(served, message.reply, _told(refusal))
            return
        frame = _frame_before(served, message.data, arguments, context)
        effect = ""
        if frame is None and served.endpoint.definition.side_effects:
            # Written down as begun, unless it was before.
            effect = key_of(served.endpoint.subject, arguments, context)
            frame = self._once.begin(effect)
        if frame is not None:
            await self._end(served, message.reply, frame)
            return
        work = self._run(served, arguments, context, running, effect)
        self._running.start(running, context.deadline or 0.0, work)

    async def _not_served(self, message: Message) -> None:
        wanted = definition_wanted(message.subject)
        definition = None if wanted is None else self._definitions.get(wanted)
        if definition is not None:
            await self.connection.send(message.reply, definition)
        else:
            await self._say(message.reply, ABSENT)

    def _context_of(self, message: Message, capability: Capability, running: RunningCall) -> CallContext:
        context = verified((message.headers or {}).get(TOKEN, ""), self._key, running.tell)
        if context.principal.tenant != self._tenant:
            raise AuthorityError("the token is of another tenant")
        context.principal.require(capability.name)
        return context

    async def _run(
        self, served: _Served, arguments: dict[str, Any], context: CallContext, running: RunningCall, effect: str
    ) -> None:
        """`effect` is the key under which an effect was begun; empty for a call that changes nothing."""
        started = time.monotonic()
        # What is said if the source raises, which is a fault of its own, or the worker is stopped.
        frame: Frame = _BROKEN
        with _BREAKDOWNS:
            try:
                frame = _frame_of(await self._source.call(served.name, arguments, context))
            except asyncio.CancelledError:
                if not running.is_late:
                    raise
                frame = Lost("the deadline passed while it ran", code="timeout")
            finally:
                self._running.end(running)
                served.endpoint.seconds += time.monotonic() - started
                if isinstance(frame, Refused):
                    self._once.forget(effect)
                elif effect:
                    self._once.finish(effect, frame)
                await self._end(served, running.reply, frame)

    def _end(self, served: _Served, reply: str, frame: Frame) -> Coroutine[Any, Any, None]:
        if not isinstance(frame, Answered) or frame.is_error:
            served.endpoint.errors += 1
            served.endpoint.last_error = getattr(frame, "code", "")
        return self._say(reply, frame)

    async def _say(self, reply: str, frame: Frame) -> None:
        headers, body = written(frame)
        if not await self.connection.send(reply, body, headers=headers) and not self.connection.carries(body, headers):
            told = f"the tool ran, and its answer of {len(body)} bytes is more than the bus carries"
            headers, body = written(Answered(told, is_error=True, code="result_too_large"))
            await self.connection.send(reply, body, headers=headers)


def _frame_before(served: _Served, body: bytes, arguments: dict[str, Any], context: CallContext) -> Frame | None:
    """Why a call is not begun; None where nothing speaks against it. The body is what the arguments were read from."""
    if context.deadline is not None and context.deadline <= time.time():
        return LATE
    if is_surely_plain(body) and served.checker.fits(arguments):
        return None
    faults = served.checker.faults(arguments)
    if not faults:
        return None
    return Answered(f"invalid_arguments: {'; '.join(map(str, faults))}", is_error=True, code="bad_request")


def _frame_of(outcome: Outcome) -> Frame:
    match outcome:
        case Answered(content, is_error, code):
            made = shaped(content)
            return outcome if made is content else Answered(made, is_error, code)
        case NotDelivered(reason, code):
            return Refused(code, reason, 503)
        case Unknown(reason, code):
            return Lost(reason, code)


def _told(refusal: FerruleError) -> Frame:
    code = refusal.code if not isinstance(refusal, BusError) else "bad_request"
    return Answered(f"{code}: {refusal.message}", is_error=True, code=code)


def _version() -> str:
    try:
        return version("ferrule")
    except PackageNotFoundError:
        return "0.0.0"
