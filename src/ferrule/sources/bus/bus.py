"""Bus: a source whose tools run in other processes, as capabilities on NATS, with the caller's own permissions.

A call goes to a worker with a free slot, by the worker's id. If its workers are not known, NATS picks one of the queue
group. A call that a worker rejected before it began is sent to another one. A call that a worker accepted and did not
answer has an unknown outcome, and is never sent again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import AuthorityError, BusError, BusUnavailableError
from ferrule.sources.bus.connection import DEFAULT_URL, Connection, Message
from ferrule.sources.bus.directory import LOOK_SECONDS, KnownWorker, ServedTool, WorkerDirectory
from ferrule.sources.bus.frame import (
    BUSY,
    MINOR_HEADER,
    STREAM_HEADER,
    TOKEN_HEADER,
    Frame,
    Heartbeat,
    NoResponders,
    Rejection,
    StreamItem,
    UnknownOutcome,
    request_body,
)
from ferrule.sources.bus.micro import (
    BRIEF_REQUEST,
    BriefInfo,
    ServedCapability,
    info_subject,
    list_request,
    page_ids,
    read_brief,
    read_counts,
    read_definition,
    read_goodbye,
    read_info,
    stats_subject,
)
from ferrule.sources.bus.names import ToolNames
from ferrule.sources.bus.request_reply import (
    HEARTBEAT_TIMEOUT,
    STREAM_HEARTBEAT_TIMEOUT,
    UNHEARD,
    ItemCallback,
    ProgressCallback,
    RequestReply,
    random_id,
)
from ferrule.sources.bus.subject import (
    MODEL,
    Capability,
    cancel_subject,
    changes_subject,
    definition_subject,
    service_name,
    version_of,
)
from ferrule.sources.bus.token import LOCAL, sign_token, validate_key
from ferrule.sources.bus.worker_slots import WorkerSlots
from ferrule.sources.source import Source
from ferrule.sources.status import SourceStatus, Trust

ATTEMPTS = 8
# Workers of one server may have different tools. A worker without the tool rejects the call at once, so many tries
# are cheap.
_NOT_SERVED_ATTEMPTS = 64
_PAUSE = 0.001
_DEADLINE_SECONDS = 120.0
_POLL_SECONDS = 15.0
_CONCURRENT_FETCHES = 16
_LIST_ATTEMPTS = 3
_MAX_PAGES = 1_000


_DEADLINE_PASSED = NotDelivered("the deadline passed before anybody took it", code="timeout")
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Request:
    """A call as it is sent, perhaps several times until a worker accepts it."""

    subject: str
    body: bytes
    headers: Mapping[str, str]
    deadline: float
    on_progress: ProgressCallback
    streaming: Mapping[str, Any]


class Bus(Source):
    """The capabilities of one tenant as tools.

    `bindings` are your own tool definitions, each bound to a capability. Without them every capability is offered as
    its worker describes it. `key` signs the caller's token; without a key the only tenant is "local".

    Example:
        async with Bus("nats://127.0.0.1:4222") as bus:
            tools = await bus.tools()
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
        heartbeat_timeout: float = HEARTBEAT_TIMEOUT,
        stream_heartbeat_timeout: float = STREAM_HEARTBEAT_TIMEOUT,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.id = id
        self.tenant = tenant
        self.connection = Connection(url, credentials, f"ferrule-{id}", inbox)
        self._key = validate_key(key)
        self._requests = RequestReply(
            self.connection,
            heartbeat_timeout=heartbeat_timeout,
            stream_heartbeat_timeout=stream_heartbeat_timeout,
        )
        self._attempts = attempts
        self._slot_seconds = _PAUSE * (2**attempts - 1)
        """How long a call waits for a free slot: as long as all attempts at the queue group take."""
        self._names = ToolNames(bindings)
        self._definitions_by_hash: dict[str, ToolDefinition] = {}
        # A limit, so that a thousand fetches at once do not make each other time out.
        self._fetch_slots = asyncio.Semaphore(_CONCURRENT_FETCHES)
        self._definitions: dict[Capability, ToolDefinition] = {}
        self._directory = WorkerDirectory()
        # One look at a time: two at once would both count a worker that is late.
        self._look_lock = asyncio.Lock()
        self._looked_at = float("-inf")
        self._look_task: asyncio.Task[None] | None = None
        self._slots = WorkerSlots()
        self._may_call_workers = True
        """False after NATS refused to publish to a worker's own subject."""
        self._refreshed_at = float("-inf")
        self._change_count = 0
        self._change_event = asyncio.Event()

    async def open(self) -> None:
        await self.connection.open()
        await self._requests.open()
        await self.connection.subscribe(changes_subject(self.tenant), self._on_change)

    async def close(self) -> None:
        if self._look_task is not None:
            self._look_task.cancel()
            await asyncio.gather(self._look_task, return_exceptions=True)
        await self._requests.close()
        await self.connection.close()

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of the bus. Workers are trusted: NATS permissions decide who may publish."""
        state, why = self.connection.status
        trust = Trust.OWN if self._names.uses_bindings else Trust.TRUSTED
        return (SourceStatus(self.id, self.kind, trust, state, why),)

    async def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that workers serve. The list is at most a few seconds old.

        The tools of a worker stay in it until the worker says goodbye, or has not answered for ten seconds or more.
        """
        served = await self.definitions()
        if not self._names.uses_bindings:
            # A model is asked by programs. Offered as a tool, it would be called by other models.
            served = {capability: tool for capability, tool in served.items() if capability.name != MODEL.name}
        return self._names.offer(served)

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
        return await self._call_capability(capability, arguments, context, None)

    async def call_capability(
        self, capability: Capability, arguments: Mapping[str, Any], context: CallContext
    ) -> Outcome:
        """Call a capability by its own name.

        Scopes are checked here first: NATS does not answer a publish that it refuses.
        """
        return await self._call_capability(capability, arguments, context, None)

    async def stream_capability(
        self, capability: Capability, arguments: Mapping[str, Any], context: CallContext
    ) -> AsyncGenerator[Any]:
        """Yield the pieces of an answer as they arrive, then the outcome. Closing the generator cancels the call."""
        received: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.create_task(self._call_capability(capability, arguments, context, received.put_nowait))
        task.add_done_callback(lambda _: received.put_nowait(task))
        try:
            while (item := await received.get()) is not task:
                yield item
            yield await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def stream(
        self,
        name: str,
        version: str | tuple[int, int],
        body: Mapping[str, Any],
        context: CallContext | None = None,
    ) -> AsyncGenerator[Any]:
        """Yield the pieces of an answer of a capability. Raises `BusError` if it does not end as an answer.

        Example:
            async for frame in bus.stream("llm.chat", (2, 0), {"messages": [{"role": "user", "content": "Hello!"}]}):
                print(frame)
        """
        major, minor = version_of(version) if isinstance(version, str) else version
        capability = replace(Capability.read(name), major=major, minor=minor)
        async with aclosing(self.stream_capability(capability, body, context or CallContext())) as items:
            async for item in items:
                match item:
                    case Answered(content, True, code):
                        raise BusError(f"{capability}: {content}", code=code or "tool_failed")
                    case Answered():
                        pass
                    case NotDelivered(reason, code):
                        raise BusUnavailableError(f"{capability}: {reason}", code=code)
                    case Unknown(reason, code):
                        raise BusError(f"{capability}: {reason}", code=code)
                    case _:
                        yield item

    async def _call_capability(
        self,
        capability: Capability,
        arguments: Mapping[str, Any],
        context: CallContext,
        on_item: ItemCallback | None,
    ) -> Outcome:
        refusal = self._refusal_of(capability, context)
        if refusal is not None:
            return refusal
        deadline = time.time() + _DEADLINE_SECONDS if context.deadline is None else context.deadline
        headers = {TOKEN_HEADER: sign_token(context, self._key, deadline, context.call_id or random_id())}
        if capability.minor:
            headers[MINOR_HEADER] = str(capability.minor)
        streaming: dict[str, Any] = {}
        if on_item is not None:
            headers[STREAM_HEADER] = "1"
            streaming = {"on_item": on_item, "cancel_subject": partial(cancel_subject, self.tenant, capability.server)}
        body, subject = request_body(arguments), capability.subject(self.tenant)
        request = _Request(subject, body, headers, deadline, context.on_progress, streaming)
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._look_in_background()
        return await self._send_to_workers(capability, request) or await self._send_to_queue_group(request)

    async def changes(self) -> AsyncGenerator[None]:
        """Yield when a worker announces that it starts or stops, and when polling finds a different list."""
        previous = await self.tools()
        while True:
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._change_event.wait()
            except TimeoutError:
                pass
            was_notified = self._change_event.is_set()
            self._change_event.clear()
            self._refreshed_at = float("-inf")
            try:
                current = await self.tools()
            except BusUnavailableError:
                current = previous
            if was_notified or current != previous:
                yield
            previous = current

    async def discover(self) -> list[ServedCapability]:
        """Ask every worker of the tenant what it serves."""
        messages = await self._gather(info_subject(service_name(self.tenant)))
        return [entry for message in messages for entry in self._read_list(message)]

    def _read_list(self, message: Message) -> list[ServedCapability]:
        try:
            listed = read_info(message.data)
        except BusError:
            # Any client may answer discovery. Ignore replies that are not documents of the protocol.
            return []
        return [entry for entry in listed if entry.subject == entry.capability.subject(self.tenant)]

    async def counts(self) -> Counter[tuple[str, str]]:
        """Requests and errors since the workers started, as ("requests", subject) and ("errors", subject)."""
        totals: Counter[tuple[str, str]] = Counter()
        for message in await self._gather(stats_subject(service_name(self.tenant))):
            try:
                subjects = read_counts(message.data)
            except BusError:
                continue
            for subject, (requests, errors) in subjects.items():
                totals["requests", subject] += requests
                totals["errors", subject] += errors
        return totals

    async def definitions(self) -> dict[Capability, ToolDefinition]:
        """The definition of each capability, for every major version the newest minor version."""
        async with self._look_lock:
            if time.monotonic() - self._refreshed_at > LOOK_SECONDS:
                await self._refresh()
        return self._definitions

    async def _refresh(self) -> None:
        changes_before = self._change_count
        await self._look()
        newest: dict[tuple[str, int], ServedTool] = {}
        for tool in sorted(self._directory.served(), key=lambda tool: (tool[0].minor, tool[1])):
            newest[tool[0].name, tool[0].major] = tool
        definitions = await asyncio.gather(*(self._definition(*tool) for tool in newest.values()))
        pairs = zip(newest.values(), definitions, strict=True)
        self._definitions = {capability: tool for (capability, _), tool in pairs if tool is not None}
        # A worker that started or stopped while the answers came in may be missing from them: refresh next time.
        self._refreshed_at = time.monotonic() if changes_before == self._change_count else float("-inf")

    async def _look(self) -> None:
        """Ask every worker for the hash of what it serves, and fetch the lists that are new."""
        self._directory.begin_look()
        listed: dict[str, list[ServedTool]] = {}
        brief: dict[str, BriefInfo] = {}
        for message in await self._gather(info_subject(service_name(self.tenant)), BRIEF_REQUEST):
            info = read_brief(message.data)
            if info is not None:
                brief[info.worker] = info
            else:
                # A worker of an older version answers with its list.
                for entry in self._read_list(message):
                    listed.setdefault(entry.worker, []).append((entry.capability, entry.fingerprint))
        answers = {id: (self._directory.learn_list(tools), 0) for id, tools in listed.items()}
        for attempt in range(_LIST_ATTEMPTS):
            by_hash: dict[str, list[BriefInfo]] = {}
            for info in brief.values():
                if not self._directory.knows_list(info.list_hash):
                    by_hash.setdefault(info.list_hash, []).append(info)
            if not by_hash:
                break
            # Workers that serve the same have the same hash: one of them is enough.
            await self._fetch_lists([same[attempt % len(same)] for same in by_hash.values()])
        answers |= {info.worker: (info.list_hash, info.cap) for info in brief.values()}
        self._looked_at = time.monotonic()
        self._directory.end_look(answers, self._looked_at)

    def _look_in_background(self) -> None:
        """Learn of workers that started and stopped, if nobody asks for the list of tools."""
        self._looked_at = time.monotonic()
        self._look_task = asyncio.create_task(self._try_to_look())

    async def _try_to_look(self) -> None:
        try:
            async with self._look_lock:
                await self._look()
        except BusUnavailableError as problem:
            _log.debug("bus: the workers were not asked what they serve: %s", problem.message)

    async def _fetch_lists(self, workers: list[BriefInfo]) -> None:
        """Ask these workers for their lists. Others may answer too: any client, and workers of an older version."""
        worker_of = {id: info.worker for info in workers for id in page_ids(info.worker, min(info.pages, _MAX_PAGES))}
        listed: dict[str, list[ServedTool]] = {info.worker: [] for info in workers}

        def take(message: Message) -> bool:
            entries = [entry for entry in self._read_list(message) if entry.worker in worker_of]
            for entry in entries:
                listed[worker_of[entry.worker]].append((entry.capability, entry.fingerprint))
            return bool(entries)

        subject, body = info_subject(service_name(self.tenant)), list_request(info.worker for info in workers)
        await self.connection.gather(subject, body, max_messages=len(worker_of), is_wanted=take)
        for tools in listed.values():
            self._directory.learn_list(tools)

    async def definition_of(self, required: Capability) -> tuple[Capability, ToolDefinition] | None:
        """The served capability that satisfies the required one, and its definition; None if there is none."""
        for capability, tool in (await self.definitions()).items():
            if capability.serves(required):
                return capability, tool
        return None

    async def _gather(self, subject: str, body: bytes = b"") -> list[Message]:
        return await self.connection.gather(subject, body)

    async def _definition(self, capability: Capability, fingerprint: str) -> ToolDefinition | None:
        """Fetch a definition by its hash. It is fetched once: the content of a hash never changes."""
        cached = self._definitions_by_hash.get(fingerprint)
        if cached is not None:
            return cached
        subject = definition_subject(self.tenant, capability.server, fingerprint)
        for _ in range(_NOT_SERVED_ATTEMPTS):
            async with self._fetch_slots:
                messages = await self.connection.gather(subject, max_messages=1)
            if not messages:
                return None
            try:
                tool = read_definition(messages[0].data, fingerprint)
            except BusError:
                # Another worker of the same server, with another version, answered.
                continue
            if (tool.bound_capability, tool.bound_version) == (capability.name, capability.version):
                self._definitions_by_hash[fingerprint] = tool
                return tool
        return None

    def _refusal_of(self, capability: Capability, context: CallContext) -> Outcome | None:
        try:
            if context.principal.tenant != self.tenant:
                raise AuthorityError(f"{context.principal.name} does not belong to tenant {self.tenant!r}")
            context.principal.require(capability.name)
        except AuthorityError as refusal:
            return Answered(f"{refusal.code}: {refusal.message}", is_error=True, code=refusal.code)
        return None

    async def _send_to_workers(self, capability: Capability, request: _Request) -> Outcome | None:
        """Send a call to workers with free slots until one accepts it; None if no known worker can be reached.

        Each rejection proves that the call did not run.
        """
        wait_until, strangers = 0.0, set[KnownWorker]()
        while self._may_call_workers and (workers := self._directory.workers_of(capability)):
            if strangers:
                workers = tuple(worker for worker in workers if worker not in strangers)
                if not workers:
                    break
            seconds = request.deadline - time.time()
            if seconds <= 0:
                return _DEADLINE_PASSED
            worker = self._slots.take(workers)
            if worker is None:
                now = time.monotonic()
                wait_until = wait_until or now + self._slot_seconds
                if now >= wait_until:
                    return _no_slot(len(workers))
                worker = await self._slots.wait(workers, min(wait_until - now, seconds))
                if worker is None:
                    continue
            subject = f"{request.subject}.{worker.id}"
            try:
                frame = await self._requests.request(
                    subject, request.body, request.headers, seconds, request.on_progress, **request.streaming
                )
            # Whatever ends the wait, also a cancellation: the slot is free again.
            except BaseException:
                self._slots.release(worker)
                raise
            self._give_slot_back(worker, frame)
            match frame:
                case Answered():
                    return frame
                case NoResponders() | Rejection(status=429):
                    pass
                case Rejection(status=403):
                    self._may_call_workers = False
                case Rejection(status=404):
                    # It serves something else by now.
                    strangers.add(worker)
                    self._looked_at = float("-inf")
                case _:
                    return self._outcome_of(frame, request)
        return None

    def _give_slot_back(self, worker: KnownWorker, frame: Frame) -> None:
        """Give a worker's slot back, after the frame that ended the call."""
        match frame:
            case Rejection(status=429):
                self._slots.release_busy(worker)
                return
            case NoResponders():
                self._directory.mark_unreachable(worker)
            case UnknownOutcome(code=code) if code == UNHEARD:
                worker.is_silent = True
            case _:
                worker.is_silent = False
        self._slots.release(worker)

    async def _send_to_queue_group(self, request: _Request) -> Outcome:
        """Send a call to any worker of the queue group, again and again until one accepts it."""
        frame: Frame = NoResponders()
        busy = not_served = 0
        while busy < self._attempts and not_served < _NOT_SERVED_ATTEMPTS:
            seconds = request.deadline - time.time()
            if seconds <= 0:
                return _DEADLINE_PASSED
            frame = await self._requests.request(
                request.subject, request.body, request.headers, seconds, request.on_progress, **request.streaming
            )
            match frame:
                case Rejection(status=404):
                    not_served += 1
                case Rejection(status=429):
                    await asyncio.sleep(_PAUSE * 2**busy)
                    busy += 1
                case _:
                    return self._outcome_of(frame, request)
        reason = frame.reason if isinstance(frame, Rejection) else "nobody took it"
        code = frame.code if isinstance(frame, Rejection) else "not_delivered"
        return NotDelivered(f"{reason} (asked {busy + not_served} times)", code=code)

    def _outcome_of(self, frame: Frame, request: _Request) -> Outcome:
        match frame:
            case Answered():
                return frame
            case UnknownOutcome(reason, code):
                return Unknown(reason, code="unknown" if code == UNHEARD else code)
            case Rejection() if not self.connection.fits_payload(request.body, request.headers):
                reason = f"arguments of {len(request.body)} bytes are more than the bus carries"
                return NotDelivered(reason, code="bad_request")
            case Rejection(code, reason):
                return NotDelivered(reason, code=code)
            case NoResponders() | Heartbeat() | StreamItem():
                return NotDelivered("nobody serves it")

    async def _on_change(self, message: Message) -> None:
        departed = read_goodbye(message.data)
        if departed:
            self._directory.depart(departed)
        self._refreshed_at = self._looked_at = float("-inf")
        self._change_count += 1
        self._change_event.set()


def _no_slot(workers: int) -> NotDelivered:
    count = "the worker has" if workers == 1 else f"each of {workers} workers has"
    return NotDelivered(f"{count} as many calls as it takes", code=BUSY.code)
