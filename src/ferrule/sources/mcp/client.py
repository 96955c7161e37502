"""A connection to one MCP server, both protocol eras, behind our own small interface. The one owner of the `mcp` SDK.

Open and leave `connected` in one and the same task: the SDK's contexts are bound to it. Calls may come from any task.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, MCPError, types
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.message import SessionMessage

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.sources.mcp.config import Endpoint, Process, Server
from ferrule.sources.mcp.elicitation import Elicit, Elicitation, answer_to
from ferrule.sources.mcp.http import client_for
from ferrule.sources.mcp.line_reader import Overlong
from ferrule.sources.mcp.results import GONE, TOO_LARGE, outcome_of_error, outcome_of_result
from ferrule.sources.mcp.stdio import Pipe
from ferrule.sources.mcp.tool_list import Listed, listed, sound_tools

IDEMPOTENCY_KEY = "ferrule.dev/idempotency-key"
HOPS = "ferrule.dev/hops"
"""Gateways behind gateways could call each other for ever: each passes on how much deeper it may go."""
_MOST_PAGES, _MOST_TOOLS = 200, 5_000
# Proves that an error is the transport's: no server can know it.
_OURS = secrets.token_hex(16)

Items = SessionMessage | Exception
Epitaph = Callable[[str], None]


class EndlessList(MCPError):
    """A list that does not end."""

    def __init__(self) -> None:
        super().__init__(GONE, f"its list has more than {_MOST_PAGES} pages or {_MOST_TOOLS} tools")


@dataclass(slots=True)
class Session:
    """A live connection. `lost` is set when it is known to be over, `stirred` when the list of tools should be read."""

    server: Server
    client: Client
    sieve: _Sieve
    lost: asyncio.Event
    stirred: asyncio.Event
    running: list[CallContext] = field(default_factory=list[CallContext])
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last call that runs has come to its end."""

    @property
    def era(self) -> str:
        return self.client.protocol_version

    async def tools(self) -> tuple[list[Listed], list[str]]:
        """All pages of the list, and what is wrong with tools that are left out."""
        self.sieve.faults.clear()
        found: list[Listed] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self.client.list_tools(cursor=cursor, cache_mode="refresh")
            found += [listed(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in page.tools]
            cursor = page.next_cursor
            if len(found) > _MOST_TOOLS:
                break
            if cursor is None:
                return found, list(self.sieve.faults)
        raise EndlessList

    async def watch(self) -> None:
        """Hears of changes where a server of the newer era must be asked to tell. Ends where it cannot."""
        tools = self.client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with self.client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.stirred.set()

    async def call(self, tool: Listed, arguments: Mapping[str, Any], context: CallContext, seconds: float) -> Outcome:
        """What became of a call. Only cancellation raises, after the server was told of it."""
        if self.lost.is_set():
            return NotDelivered("the server is not connected")
        self.running.append(context)
        self.idle.clear()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                (answer,) = await asyncio.gather(self._asked(tool, arguments, context), return_exceptions=True)
        except TimeoutError:
            return Unknown(f"no answer within {max(0.0, seconds):g} seconds", code="timeout")
        finally:
            self.running.remove(context)
            if not self.running:
                self.idle.set()
        return self._outcome(answer, tool)

    async def _asked(self, tool: Listed, arguments: Mapping[str, Any], context: CallContext) -> types.CallToolResult:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            context.report(progress, total, message or "")

        key = {IDEMPOTENCY_KEY: context.call_id} if context.call_id else {}
        meta = cast("types.RequestParamsMeta", {**key, HOPS: context.hops})
        return await self.client.call_tool(tool.name, dict(arguments), progress_callback=told, meta=meta)

    def _outcome(self, answer: types.CallToolResult | BaseException, tool: Listed) -> Outcome:
        match answer:
            case types.CallToolResult():
                return outcome_of_result(answer.model_dump(mode="json", by_alias=True), tool.output)
            case asyncio.CancelledError():
                raise answer
            case MCPError():
                return outcome_of_error(answer.code, answer.message, is_ours=_is_ours(answer))
            case ValueError():
                return Answered("the server's answer is not what the protocol has", is_error=True, code="bad_answer")
            case _:
                return Unknown(f"the connection failed ({type(answer).__name__})")


@asynccontextmanager
async def connected(
    server: Server, elicit: Elicit, most_bytes: int, epitaph: Epitaph = lambda words: None
) -> AsyncGenerator[Session]:
    """A connection that is ready to use. Failing to get one raises, whatever the reason: the caller tells of it.

    `epitaph` hears what a process wrote last to its stderr, when it is over.
    """
    sieve, lost, stirred = _Sieve(), asyncio.Event(), asyncio.Event()
    session: Session | None = None

    async def asked(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        running = session.running if session else []
        question = Elicitation(
            server.name,
            params.message,
            {} if isinstance(params, types.ElicitRequestURLParams) else cast("Any", params.requested_schema),
            params.url if isinstance(params, types.ElicitRequestURLParams) else "",
            running[0] if len(running) == 1 else None,
        )
        answer = await answer_to(question, elicit)
        content = dict(answer.content) if answer.action == "accept" and not question.url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            stirred.set()

    transport = _sieved(server, sieve, most_bytes, lost, stirred, epitaph)
    client = Client(transport, elicitation_callback=asked, message_handler=heard, client_info=_CLIENT, cache=None)
    async with client:
        # The SDK checks answers with a validator that a hostile schema can hold up for minutes; ours is bounded.
        client.session.validate_tool_result = _unchecked
        session = Session(server, client, sieve, lost, stirred)
        sieve.is_modern = client.session.discover_result is not None
        yield session


_CLIENT = types.Implementation(name="ferrule", version="1")


async def _unchecked(name: str, result: types.CallToolResult) -> None:
    """Structured content is checked in `outcome_of_result`."""


def _error_of(code: int, told: str) -> dict[str, Any]:
    return {"code": code, "message": told, "data": {"ferrule": _OURS}}


def _is_ours(error: MCPError) -> bool:
    return error.data == {"ferrule": _OURS}


@asynccontextmanager
async def _sieved(
    server: Server, sieve: _Sieve, most_bytes: int, lost: asyncio.Event, stirred: asyncio.Event, epitaph: Epitaph
) -> AsyncGenerator[Any]:
    match server.reach:
        case Process() as reach:
            async with _over_pipe(reach, most_bytes, lost, epitaph) as (read, write):
                sieve.inner = read
                yield sieve, write
        case Endpoint() as reach:
            web = client_for(reach, server.timeouts.connect, most_bytes, _error_of, stirred.set)
            async with web, streamable_http_client(reach.url, http_client=web, max_sse_event_size=most_bytes) as ends:
                sieve.inner, write = ends
                yield sieve, write


class _Sieve:
    """What comes from a server, with malformed tools taken out of its lists before the SDK refuses the whole list."""

    def __init__(self) -> None:
        self.inner: Any = None
        self.faults: list[str] = []
        self.is_modern = False

    @property
    def last_context(self) -> Any:
        return getattr(self.inner, "last_context", None)

    async def receive(self) -> Items:
        return self._sifted(await self.inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Items:
        return self._sifted(await self.inner.__anext__())

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.inner.__aexit__(kind, error, trace)

    def _sifted(self, item: Items) -> Items:
        message = item.message if isinstance(item, SessionMessage) else None
        result: dict[str, Any] = message.result if isinstance(message, types.JSONRPCResponse) else {}
        if isinstance(result.get("tools"), list) and "content" not in result:
            result["tools"], faults = sound_tools(result["tools"], is_modern=self.is_modern)
            self.faults += faults
        return item


@asynccontextmanager
async def _over_pipe(
    reach: Process, most_bytes: int, lost: asyncio.Event, epitaph: Epitaph
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Items], MemoryObjectSendStream[SessionMessage]]]:
    pipe = await Pipe.start(reach)
    heard, incoming = anyio.create_memory_object_stream[Items](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with heard:
            async for line in pipe.lines(most_bytes):
                message = _overlong(line) if isinstance(line, Overlong) else _message(line)
                if message is not None:
                    await heard.send(message)

    async def write() -> None:
        async for item in to_send:
            await pipe.send(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async def work(way: Callable[[], Any]) -> None:
        try:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await way()
        finally:
            lost.set()
            await heard.aclose()

    tasks = [asyncio.ensure_future(work(way)) for way in (read, write)]
    try:
        yield incoming, outgoing
    finally:
        try:
            await pipe.stop()
        finally:
            # Stopping can be cancelled, by a limit of time and by closing at once; the rest is done all the same.
            epitaph(pipe.last_words)
            for stream in (heard, incoming, outgoing, to_send):
                stream.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # Some servers print to their output what belongs into a log.
        return None


def _overlong(line: Overlong) -> SessionMessage | None:
    if line.answers is None:
        return None
    told = f"the answer has {line.size} bytes, which is too large, and was not read"
    error = types.ErrorData.model_validate(_error_of(TOO_LARGE, told))
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=line.answers, error=error))
