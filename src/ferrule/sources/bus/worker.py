"""Worker: serves any source of tools on the bus, as capabilities. It knows nothing of models, loops or approvals.

It runs at most `cap` calls at once and rejects others as busy, so that they go to another worker. For the caller's
identity it trusts only the token. It validates the arguments again, and sends a heartbeat every second while a call
runs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import AuthorityError, BusError, FerruleError
from ferrule.rules.call_check import grammar_faults
from ferrule.schema.admission import admit
from ferrule.schema.checker import Checker
from ferrule.sources.bus.connection import DEFAULT_URL, Connection, Message
from ferrule.sources.bus.deduplication import Deduplicator, key_of
from ferrule.sources.bus.directory import list_hash
from ferrule.sources.bus.frame import (
    BUSY,
    DEADLINE_PASSED,
    NOT_SERVED,
    STREAM_HEADER,
    TOKEN_HEADER,
    Frame,
    Rejection,
    UnknownOutcome,
    count_items,
    encode_frame,
    is_plain_json,
    read_minor,
    read_request,
)
from ferrule.sources.bus.micro import (
    QUEUE,
    Endpoint,
    Identity,
    brief_bytes,
    control_subjects,
    definition_bytes,
    documents,
    goodbye_bytes,
    is_asked,
    is_brief_request,
)
from ferrule.sources.bus.running_calls import HEARTBEAT_SECONDS, RunningCall, RunningCalls
from ferrule.sources.bus.subject import (
    Capability,
    call_id_of,
    cancel_subject,
    cancelled_id,
    changes_subject,
    requested_fingerprint,
    server_wildcard,
    service_name,
    worker_wildcard,
)
from ferrule.sources.bus.token import LOCAL, validate_key, verify_token
from ferrule.sources.source import Source
from ferrule.sources.tool_output import limit_media, to_json_value, with_media

CAP = 16
_log = logging.getLogger(__name__)
_GRACE_SECONDS = 30.0
_ENDED_EARLY = {
    True: ("the deadline passed while it ran", "timeout"),
    False: ("the caller cancelled it", "cancelled"),
}
_WORKER_FAILED = UnknownOutcome("the worker failed or was stopped while it ran", code="internal_error")


@dataclass(frozen=True, slots=True)
class _ServedTool:
    endpoint: Endpoint
    name: str
    """The tool's name in its source."""
    checker: Checker


class Worker:
    """Serves a source. Closing it finishes the running calls and rejects the queued ones as busy.

    Example:
        async with Worker(Functions([get_weather]), "nats://127.0.0.1:4222"):
            await stop.wait()
    """

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
        heartbeat: float = HEARTBEAT_SECONDS,
        grace: float = _GRACE_SECONDS,
    ) -> None:
        self.connection = Connection(url, credentials, f"ferrule-worker-{server}")
        self._source = source
        self._server, self._tenant = server, tenant
        self._key = validate_key(key)
        self._cap, self._grace = cap, grace
        labels = {"server": server, **(metadata or {})}
        self._identity = Identity(secrets.token_hex(11), service_name(tenant), _version(), labels, time.time())
        self.notices: list[str] = []
        """Messages for the operator: tools that are not served, and why."""
        self._tools: dict[str, _ServedTool] = {}
        self._definitions: dict[str, bytes] = {}
        self._brief_info = brief_bytes(self._identity, list_hash(()), 0)
        self._servers: set[str] = set()
        """The server names that are subscribed."""
        self._running = RunningCalls(self._send, heartbeat=heartbeat)
        self._deduplicator = Deduplicator()
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        return tuple(sorted(tool.endpoint.capability for tool in self._tools.values()))

    async def open(self) -> None:
        async with AsyncExitStack() as cleanup:
            await self._source.open()
            cleanup.push_async_callback(self._source.close)
            await self.connection.open()
            cleanup.push_async_callback(self.connection.close)
            for verb, subject in control_subjects(self._identity):
                await self.connection.subscribe(subject, self._discovery_handler(verb))
            await self._serve_tools()
            cleanup.pop_all()
        self._tasks = [asyncio.create_task(self._running.run_heartbeat()), asyncio.create_task(self._follow_changes())]

    async def close(self) -> None:
        self._is_stopping = True
        await self.connection.stop_receiving()
        # From here on it answers no look, so this is the last that callers hear of it.
        await self.connection.send(changes_subject(self._tenant), goodbye_bytes(self._identity))
        await self._running.wait_until_done(self._grace)
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
        """Read the source's tools and subscribe once to each server name among them."""
        served: dict[str, _ServedTool] = {}
        self.notices = []
        for tool in await self._source.tools():
            try:
                new_tool = self._serve_tool(tool)
            except FerruleError as refusal:
                self.notices.append(f"{tool.name} is not served: {refusal.message}")
                continue
            other = served.setdefault(new_tool.endpoint.subject, new_tool)
            if other is not new_tool:
                self.notices.append(
                    f"{tool.name} is not served: {other.name} is {new_tool.endpoint.capability.name} already"
                )
        self._tools = served
        endpoints = [new_tool.endpoint for new_tool in served.values()]
        self._definitions = {new_tool.fingerprint: definition_bytes(new_tool.definition) for new_tool in endpoints}
        servers = {endpoint.capability.server for endpoint in endpoints}
        for server in sorted(servers - self._servers):
            await self.connection.subscribe(
                server_wildcard(self._tenant, server), self._on_request, QUEUE, is_direct=True
            )
            wildcard = worker_wildcard(self._tenant, server, self._identity.id)
            await self.connection.subscribe(wildcard, self._on_direct_request, is_direct=True)
            # Without the queue: the worker that runs the call must get it.
            await self.connection.subscribe(cancel_subject(self._tenant, server, "*"), self._on_cancellation)
        self._servers |= servers
        await self.connection.flush()
        listed = list_hash((endpoint.capability, endpoint.fingerprint) for endpoint in endpoints)
        # A server with permissions for an older version refuses the subscription to the worker's own subject.
        is_refused = any(self._identity.id in error.lower() for error in self.connection.errors)
        self._brief_info = brief_bytes(self._identity, listed, len(endpoints), 0 if is_refused else self._cap)
        await self.connection.send(changes_subject(self._tenant))

    def _serve_tool(self, tool: ToolDefinition) -> _ServedTool:
        capability = Capability.read(tool.bound_capability or f"{self._server}.{tool.name}", tool.bound_version)
        bound = replace(tool, bound_capability=capability.name, bound_version=capability.version)
        subject = capability.subject(self._tenant)
        endpoint = Endpoint(capability, subject, bound, bound.fingerprint)
        previous = self._tools.get(subject)
        if previous is not None:
            counts = previous.endpoint
            endpoint.requests, endpoint.errors, endpoint.seconds = counts.requests, counts.errors, counts.seconds
        return _ServedTool(endpoint, tool.name, Checker(admit(tool.parameters)))

    async def _follow_changes(self) -> None:
        async for _ in self._source.changes():
            await self._serve_tools()

    def _discovery_handler(self, verb: str) -> Any:
        async def handle(message: Message) -> None:
            if not message.reply:
                return
            if verb == "INFO" and is_brief_request(message.data):
                await self.connection.send(message.reply, self._brief_info)
                return
            if verb == "INFO" and not is_asked(message.data, self._identity.id):
                return
            for document in documents(verb, self._identity, (one.endpoint for one in self._tools.values())):
                await self.connection.send(message.reply, document)

        return handle

    async def _on_request(self, message: Message) -> None:
        """Handle every request, one after the other. It never waits for a tool."""
        if not message.reply:
            # Nobody waits for an answer. NATS reports a caller that is gone in this way.
            await self._on_cancellation(message)
            return
        served = self._tools.get(message.subject)
        if served is None:
            await self._on_unknown_subject(message)
            return
        await self._handle(message, served)

    async def _on_direct_request(self, message: Message) -> None:
        """Handle a request to this worker and no other: its id follows the subject of the capability."""
        served = self._tools.get(message.subject.rpartition(".")[0])
        if not message.reply:
            return
        if served is None:
            await self._send(message.reply, NOT_SERVED)
            return
        await self._handle(message, served)

    async def _handle(self, message: Message, served: _ServedTool) -> None:
        if self._is_stopping or len(self._running) >= self._cap:
            await self._send(message.reply, BUSY)
            return
        served.endpoint.requests += 1
        running = self._running.new(message.reply)
        try:
            if read_minor(message.headers) > served.endpoint.capability.minor:
                await self._send(message.reply, NOT_SERVED)
                return
            context = self._context_of(message, served.endpoint, running)
            arguments = read_request(message.data)
        except FerruleError as refusal:
            await self._finish(served, message.reply, _error_frame(refusal))
            return
        frame = _frame_if_rejected(served, message.data, arguments, context)
        effect_key = ""
        if frame is None and served.endpoint.definition.side_effects:
            # Record the call as started, unless it was before.
            effect_key = key_of(served.endpoint.subject, arguments, context)
            frame = self._deduplicator.begin(effect_key)
        if frame is not None:
            await self._finish(served, message.reply, frame)
            return
        work = self._run(served, arguments, context, running, effect_key)
        self._running.start(running, context.deadline or 0.0, work)

    async def _on_cancellation(self, message: Message) -> None:
        self._running.cancel(cancelled_id(message.subject) or "")

    async def _on_unknown_subject(self, message: Message) -> None:
        fingerprint = requested_fingerprint(message.subject)
        definition = None if fingerprint is None else self._definitions.get(fingerprint)
        if definition is not None:
            await self.connection.send(message.reply, definition)
        else:
            await self._send(message.reply, NOT_SERVED)

    def _context_of(self, message: Message, endpoint: Endpoint, running: RunningCall) -> CallContext:
        headers, capability = message.headers or {}, endpoint.capability
        context = verify_token(headers.get(TOKEN_HEADER, ""), self._key, running.report)
        if context.principal.tenant != self._tenant:
            raise AuthorityError("the token belongs to another tenant")
        context.principal.require(capability.name)
        if STREAM_HEADER not in headers:
            return context
        if not endpoint.definition.side_effects:
            # A cancelled effect may have happened, and nobody would learn of it. Such a call runs to its end.
            running.cancel_subject = cancel_subject(self._tenant, capability.server, call_id_of(running.reply))
        return replace(context, on_item=partial(self._running.send_item, running))

    async def _run(
        self,
        served: _ServedTool,
        arguments: dict[str, Any],
        context: CallContext,
        running: RunningCall,
        effect_key: str,
    ) -> None:
        """Run a call. `effect_key` is its deduplication key; empty for a tool without side effects."""
        started = time.monotonic()
        # Sent if the source raises, which is a bug in the source, or the worker is stopped.
        frame: Frame = _WORKER_FAILED
        try:
            frame = _frame_of(await self._source.call(served.name, arguments, context))
            await self._running.send_last_progress(running)
        except asyncio.CancelledError:
            if not running.is_late and not running.is_cancelled:
                raise
            reason, code = _ENDED_EARLY[running.is_late]
            frame = UnknownOutcome(reason, code=code)
        # A source is somebody's code, and a call that raises or exits must not end the worker. The caller does not get
        # the exception, whose message may contain secrets.
        except (Exception, SystemExit, KeyboardInterrupt):
            _log.exception("the source of %r raised an exception", served.name)
        finally:
            self._running.end(running)
            served.endpoint.seconds += time.monotonic() - started
            if isinstance(frame, Rejection):
                self._deduplicator.forget(effect_key)
            elif effect_key:
                self._deduplicator.finish(effect_key, frame)
            await self._finish(served, running.reply, frame, running.items)

    def _finish(self, served: _ServedTool, reply: str, frame: Frame, items: int = 0) -> Coroutine[Any, Any, None]:
        if not isinstance(frame, Answered) or frame.is_error:
            served.endpoint.errors += 1
            served.endpoint.last_error = getattr(frame, "code", "")
        return self._send(reply, frame, items=items)

    async def _send(self, reply: str, frame: Frame, cancel_subject: str = "", items: int = 0) -> None:
        """Send a frame. `items` is how many pieces of the answer came before it, if it is the last one."""
        headers, body = count_items(encode_frame(frame), items) if items else encode_frame(frame)
        is_sent = await self.connection.send(reply, body, cancel_subject, headers)
        if not is_sent and not self.connection.fits_payload(body, headers):
            message = f"the tool ran, and its answer of {len(body)} bytes is more than the bus carries"
            headers, body = encode_frame(Answered(message, is_error=True, code="result_too_large"))
            await self.connection.send(reply, body, headers=headers)


def _frame_if_rejected(
    served: _ServedTool, body: bytes, arguments: dict[str, Any], context: CallContext
) -> Frame | None:
    """The frame that rejects a call; None if the call may run. `body` is the JSON that contained the arguments."""
    if context.deadline is not None and context.deadline <= time.time():
        return DEADLINE_PASSED
    has_grammar = served.endpoint.definition.input_grammar is not None
    if not has_grammar and is_plain_json(body) and served.checker.fits(arguments):
        return None
    faults = served.checker.faults(arguments) or grammar_faults(served.endpoint.definition, arguments)
    if not faults:
        return None
    return Answered(f"invalid_arguments: {'; '.join(map(str, faults))}", is_error=True, code="bad_request")


def _frame_of(outcome: Outcome) -> Frame:
    match outcome:
        case Answered():
            value = to_json_value(outcome.content)
            return limit_media(with_media(outcome if value is outcome.content else replace(outcome, content=value)))
        case NotDelivered(reason, code):
            return Rejection(code, reason, 503)
        case Unknown(reason, code):
            return UnknownOutcome(reason, code)


def _error_frame(error: FerruleError) -> Frame:
    code = error.code if not isinstance(error, BusError) else "bad_request"
    return Answered(f"{code}: {error.message}", is_error=True, code=code)


def _version() -> str:
    try:
        return version("ferrule")
    except PackageNotFoundError:
        return "0.0.0"
