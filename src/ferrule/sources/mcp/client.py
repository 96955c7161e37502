"""A session with one MCP server, for both protocol generations. This is the only module that imports the `mcp` SDK.

Enter and exit `connect` in the same task: the SDK's contexts are bound to it. Calls may come from any task.
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
from ferrule.sources.mcp.config import HttpTransport, Server, StdioTransport
from ferrule.sources.mcp.elicitation import Elicit, Elicitation, answer_to
from ferrule.sources.mcp.http import client_for
from ferrule.sources.mcp.line_reader import OverlongLine
from ferrule.sources.mcp.results import CONNECTION_LOST, TOO_LARGE, outcome_of_error, outcome_of_result
from ferrule.sources.mcp.stdio import ServerProcess
from ferrule.sources.mcp.tool_list import ListedTool, tool_of, valid_tools

IDEMPOTENCY_KEY = "ferrule.dev/idempotency-key"
HOPS = "ferrule.dev/hops"
"""The remaining call depth. Without it gateways behind gateways could call each other for ever."""
_MAX_PAGES, _MAX_TOOLS = 200, 5_000
# Marks errors from our own transports. No server can know this random value.
_TRANSPORT_MARKER = secrets.token_hex(16)

Items = SessionMessage | Exception
OnExit = Callable[[str], None]


class ToolListTooLong(MCPError):
    """The server's tool list does not end."""

    def __init__(self) -> None:
        super().__init__(CONNECTION_LOST, f"its tool list has more than {_MAX_PAGES} pages or {_MAX_TOOLS} tools")


@dataclass(slots=True)
class Session:
    """A live connection. `lost` is set when it has ended, `list_changed` when the tools should be listed again."""

    server: Server
    client: Client
    tool_filter: _ToolListFilter
    lost: asyncio.Event
    list_changed: asyncio.Event
    running: list[CallContext] = field(default_factory=list[CallContext])
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no call is running."""

    @property
    def protocol_version(self) -> str:
        return self.client.protocol_version

    async def tools(self) -> tuple[list[ListedTool], list[str]]:
        """Fetch all pages of the tool list. Also returns messages about tools that are left out."""
        self.tool_filter.faults.clear()
        listed_tools: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.client.list_tools(cursor=cursor, cache_mode="refresh")
            listed_tools += [
                tool_of(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in page.tools
            ]
            cursor = page.next_cursor
            if len(listed_tools) > _MAX_TOOLS:
                break
            if cursor is None:
                return listed_tools, list(self.tool_filter.faults)
        raise ToolListTooLong

    async def watch(self) -> None:
        """Subscribe to list changes, which servers of the newer protocol require. Returns if that is not supported."""
        tools = self.client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with self.client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.list_changed.set()

    async def call(
        self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext, seconds: float
    ) -> Outcome:
        """Call a tool and return the outcome. Only cancellation raises, after the server was notified."""
        if self.lost.is_set():
            return NotDelivered("the server is not connected")
        self.running.append(context)
        self.idle.clear()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                return await self._outcome_of_call(tool, arguments, context)
        except TimeoutError:
            return Unknown(f"no answer within {max(0.0, seconds):g} seconds", code="timeout")
        finally:
            self.running.remove(context)
            if not self.running:
                self.idle.set()

    async def _outcome_of_call(self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        try:
            result = await self._call_tool(tool, arguments, context)
        except MCPError as error:
            return outcome_of_error(error.code, error.message, is_from_transport=_is_ours(error))
        except ValueError:
            return Answered("the server's answer violates the MCP protocol", is_error=True, code="bad_answer")
        # The SDK raises whatever its transports raise. Whichever it is, the server may have run the call.
        except Exception as error:
            return Unknown(f"the connection failed ({type(error).__name__})")
        return outcome_of_result(result.model_dump(mode="json", by_alias=True), tool.output)

    async def _call_tool(
        self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext
    ) -> types.CallToolResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            context.report(progress, total, message or "")

        key = {IDEMPOTENCY_KEY: context.call_id} if context.call_id else {}
        meta = cast("types.RequestParamsMeta", {**key, HOPS: context.hops})
        return await self.client.call_tool(tool.name, dict(arguments), progress_callback=on_progress, meta=meta)


@asynccontextmanager
async def connect(
    server: Server, elicit: Elicit, max_bytes: int, on_exit: OnExit = lambda words: None
) -> AsyncGenerator[Session]:
    """Connect to a server and yield a session. Any failure to connect raises; the caller reports it.

    `on_exit` receives the last line that a server process wrote to stderr, when it ends.
    """
    tool_filter, lost, list_changed = _ToolListFilter(), asyncio.Event(), asyncio.Event()
    session: Session | None = None

    async def on_elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
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

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            list_changed.set()

    transport = _open_transport(server, tool_filter, max_bytes, lost, list_changed, on_exit)
    client = Client(
        transport, elicitation_callback=on_elicit, message_handler=on_message, client_info=_CLIENT_INFO, cache=None
    )
    async with client:
        # The SDK validates answers with a validator that a hostile schema can block for minutes; ours has a limit.
        client.session.validate_tool_result = _skip_validation
        session = Session(server, client, tool_filter, lost, list_changed)
        tool_filter.is_modern = client.session.discover_result is not None
        yield session


_CLIENT_INFO = types.Implementation(name="ferrule", version="1")


async def _skip_validation(name: str, result: types.CallToolResult) -> None:
    """Do nothing: `outcome_of_result` validates structured content."""


def _error_of(code: int, message: str) -> dict[str, Any]:
    return {"code": code, "message": message, "data": {"ferrule": _TRANSPORT_MARKER}}


def _is_ours(error: MCPError) -> bool:
    return error.data == {"ferrule": _TRANSPORT_MARKER}


@asynccontextmanager
async def _open_transport(
    server: Server,
    tool_filter: _ToolListFilter,
    max_bytes: int,
    lost: asyncio.Event,
    list_changed: asyncio.Event,
    on_exit: OnExit,
) -> AsyncGenerator[Any]:
    match server.transport:
        case StdioTransport() as transport:
            async with _open_pipe(transport, max_bytes, lost, on_exit) as (read, write):
                tool_filter.inner = read
                yield tool_filter, write
        case HttpTransport() as transport:
            web = client_for(transport, server.timeouts.connect, max_bytes, _error_of, list_changed.set)
            async with (
                web,
                streamable_http_client(transport.url, http_client=web, max_sse_event_size=max_bytes) as ends,
            ):
                tool_filter.inner, write = ends
                yield tool_filter, write


class _ToolListFilter:
    """Removes invalid tools from a server's tool lists, because the SDK would reject the whole list."""

    def __init__(self) -> None:
        self.inner: Any = None
        self.faults: list[str] = []
        self.is_modern = False

    @property
    def last_context(self) -> Any:
        return getattr(self.inner, "last_context", None)

    async def receive(self) -> Items:
        return self._filter(await self.inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Items:
        return self._filter(await self.inner.__anext__())

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.inner.__aexit__(kind, error, trace)

    def _filter(self, item: Items) -> Items:
        message = item.message if isinstance(item, SessionMessage) else None
        result: dict[str, Any] = message.result if isinstance(message, types.JSONRPCResponse) else {}
        if isinstance(result.get("tools"), list) and "content" not in result:
            result["tools"], faults = valid_tools(result["tools"], is_modern=self.is_modern)
            self.faults += faults
        return item


@asynccontextmanager
async def _open_pipe(
    transport: StdioTransport, max_bytes: int, lost: asyncio.Event, on_exit: OnExit
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Items], MemoryObjectSendStream[SessionMessage]]]:
    pipe = await ServerProcess.start(transport)
    incoming_sender, incoming = anyio.create_memory_object_stream[Items](0)
    outgoing, outgoing_receiver = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with incoming_sender:
            async for line in pipe.lines(max_bytes):
                message = _too_large_error(line) if isinstance(line, OverlongLine) else _message(line)
                if message is not None:
                    await incoming_sender.send(message)

    async def write() -> None:
        async for item in outgoing_receiver:
            await pipe.send(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async def work(direction: Callable[[], Any]) -> None:
        try:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await direction()
        finally:
            lost.set()
            await incoming_sender.aclose()

    tasks = [asyncio.ensure_future(work(direction)) for direction in (read, write)]
    try:
        yield incoming, outgoing
    finally:
        try:
            await pipe.stop()
        finally:
            # Stopping can be cancelled, by a timeout or by closing at once. Clean up in any case.
            on_exit(pipe.last_stderr_line)
            for stream in (incoming_sender, incoming, outgoing, outgoing_receiver):
                stream.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # Some servers print log lines to stdout.
        return None


def _too_large_error(line: OverlongLine) -> SessionMessage | None:
    if line.answers is None:
        return None
    message = f"the answer has {line.size} bytes, which is too large; it was not read"
    error = types.ErrorData.model_validate(_error_of(TOO_LARGE, message))
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=line.answers, error=error))
