"""A session with one MCP server, for both protocol generations.

Only this module, `task_requests` and `resource_requests` use the `mcp` SDK.

Enter and exit `connect` in the same task: the SDK's contexts are bound to it. Calls may come from any task.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
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
from ferrule.errors import FerruleError
from ferrule.sources.call_timer import CallTimer
from ferrule.sources.mcp import resource_requests
from ferrule.sources.mcp.config import HttpTransport, Server, StdioTransport
from ferrule.sources.mcp.elicitation import Elicit
from ferrule.sources.mcp.http import client_for
from ferrule.sources.mcp.line_reader import OverlongLine
from ferrule.sources.mcp.login import Login
from ferrule.sources.mcp.oauth import SignIn
from ferrule.sources.mcp.resource_tools import is_resource_tool, with_resource_tools
from ferrule.sources.mcp.results import (
    CONNECTION_LOST,
    METHOD_NOT_FOUND,
    TOO_LARGE,
    outcome_of_error,
    outcome_of_result,
)
from ferrule.sources.mcp.sampling import Sampler, refuse
from ferrule.sources.mcp.server_requests import CURRENT_CALL, ServerRequests
from ferrule.sources.mcp.stdio import ServerProcess
from ferrule.sources.mcp.task_requests import TaskRequests, hidden_task, hide_task, task_extensions
from ferrule.sources.mcp.tasks import TaskState
from ferrule.sources.mcp.tool_list import ListedTool, raw_digest, tool_of, valid_tools

IDEMPOTENCY_KEY = "ferrule.dev/idempotency-key"
HOPS = "ferrule.dev/hops"
"""The remaining call depth. Without it gateways behind gateways could call each other for ever."""
_MAX_PAGES, _MAX_TOOLS = 200, 5_000
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
# Marks errors from our own transports. No server can know this random value.
_TRANSPORT_MARKER = secrets.token_hex(16)

Items = SessionMessage | Exception
OnExit = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of a list of tools, and the hash of what the server sent."""

    fingerprint: str
    tools: tuple[ListedTool, ...]
    faults: tuple[str, ...]
    next_cursor: str | None


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
    is_subscribed: bool = False
    """Whether a server of the newer protocol has agreed to report changes."""
    _pages: dict[str, _Page] = field(default_factory=dict[str, _Page])
    """The pages of the last list, by cursor."""

    @property
    def protocol_version(self) -> str:
        return self.client.protocol_version

    @property
    def reports_changes(self) -> bool:
        """Whether the server says when its list changes, over a connection on which that arrives.

        An older server on HTTP may say so where nobody listens: whether its stream of events is open is not known.
        """
        is_on_pipe = isinstance(self.server.transport, StdioTransport)
        return self._announces_changes and (self.is_subscribed or (is_on_pipe and not self.tool_filter.is_modern))

    @property
    def _announces_changes(self) -> bool:
        tools = self.client.server_capabilities.tools
        return tools is not None and tools.list_changed is True

    async def tools(self) -> tuple[list[ListedTool], list[str]]:
        """Fetch all pages of the tool list. Also returns messages about tools that are left out."""
        pages: dict[str, _Page] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            known = self._pages.get(cursor or "")
            page = pages[cursor or ""] = await self._page(cursor, known)
            cursor = page.next_cursor
            if sum(len(one.tools) for one in pages.values()) > _MAX_TOOLS:
                break
            if cursor is None:
                self._pages = pages
                listed = [tool for one in pages.values() for tool in one.tools]
                has = self.client.server_capabilities
                tools, messages = with_resource_tools(
                    self.server, listed, has_resources=has.resources is not None, has_prompts=has.prompts is not None
                )
                return tools, [*(fault for one in pages.values() for fault in one.faults), *messages]
            if cursor in pages:
                break
        raise ToolListTooLong

    async def _page(self, cursor: str | None, known: _Page | None) -> _Page:
        """Fetch a page. One that has not changed is not converted again."""
        seen = self.tool_filter
        seen.known, seen.fingerprint = known.fingerprint if known is not None else "", ""
        try:
            listed = await self.client.list_tools(cursor=cursor, cache_mode="refresh")
        except MCPError as error:
            # A server that has only resources or prompts does not know the request.
            if error.code != METHOD_NOT_FOUND or self.client.server_capabilities.tools is not None:
                raise
            return _Page("", (), (), None)
        if known is not None and known.fingerprint and seen.fingerprint == known.fingerprint:
            return replace(known, next_cursor=listed.next_cursor)
        tools = [tool_of(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in listed.tools]
        return _Page(seen.fingerprint, tuple(tools), tuple(seen.faults), listed.next_cursor)

    async def watch(self) -> None:
        """Subscribe to list changes, which servers of the newer protocol require. Returns if that is not supported."""
        if not self._announces_changes:
            return
        pause = _FIRST_PAUSE
        while True:
            try:
                async with self.client.listen(tools_list_changed=True) as changes:
                    self.is_subscribed = changes.honored.tools_list_changed is True
                    # The list may have changed before the server agreed.
                    self.list_changed.set()
                    async for _ in changes:
                        pause = _FIRST_PAUSE
                        self.list_changed.set()
            except SubscriptionLost:
                pass
            except (ListenNotSupportedError, MCPError, TimeoutError):
                return
            finally:
                self.is_subscribed = False
            # Nobody reports what changes in between; or the server is gone, which reading the list shows.
            self.list_changed.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    @property
    def tasks(self) -> TaskRequests:
        return TaskRequests(self.client, self.tool_filter.is_modern)

    @contextmanager
    def running_call(self, context: CallContext) -> Generator[None]:
        """Count a call as one that runs: what the server asks meanwhile may belong to it."""
        self.running.append(context)
        self.idle.clear()
        current = CURRENT_CALL.set(context)
        try:
            yield
        finally:
            CURRENT_CALL.reset(current)
            self.running[:] = [one for one in self.running if one is not context]
            if not self.running:
                self.idle.set()

    async def call(
        self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext, seconds: float
    ) -> Outcome | TaskState:
        """Call a tool and return the outcome, or the task that the server has begun.

        Only cancellation raises, after the server was notified.
        """
        if self.lost.is_set():
            return NotDelivered("the server is not connected")
        # Where the caller has a timer that is paused too, that timer keeps the deadline.
        is_kept_outside = context.pause is not nullcontext
        timer = CallTimer(
            max(0.0, seconds), deadline=None if is_kept_outside else context.deadline, outer=context.pause
        )
        context = replace(context, pause=timer.pause)
        try:
            with self.running_call(context):
                async with timer:
                    return await self._outcome_of_call(tool, arguments, context)
        except TimeoutError:
            return Unknown(f"no answer within {max(0.0, seconds):g} seconds", code="timeout")

    async def _outcome_of_call(
        self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext
    ) -> Outcome | TaskState:
        try:
            if is_resource_tool(tool):
                return await resource_requests.read(self.client, self.server, tool, arguments)
            result = await self._call_tool(tool, arguments, context)
        except MCPError as error:
            return outcome_of_error(error.code, error.message, is_from_transport=is_from_transport(error))
        except ValueError:
            return Answered("the server's answer violates the MCP protocol", is_error=True, code="bad_answer")
        # The SDK raises whatever its transports raise. Whichever it is, the server may have run the call.
        except Exception as error:
            return Unknown(f"the connection failed ({type(error).__name__})")
        answer = result.model_dump(mode="json", by_alias=True)
        return hidden_task(answer) or outcome_of_result(answer, tool.output)

    async def _call_tool(
        self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext
    ) -> types.CallToolResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            context.report(progress, total, message or "")

        key = {IDEMPOTENCY_KEY: context.call_id} if context.call_id else {}
        meta = cast("types.RequestParamsMeta", {**key, HOPS: context.hops})
        if tool.needs_task and not self.tool_filter.is_modern:
            return await self.tasks.call(tool.name, dict(arguments), on_progress, meta)
        return await self.client.call_tool(tool.name, dict(arguments), progress_callback=on_progress, meta=meta)


@asynccontextmanager
async def connect(
    server: Server,
    elicit: Elicit,
    max_bytes: int,
    on_exit: OnExit = lambda words: None,
    login: Login | None = None,
    sampler: Sampler = refuse,
) -> AsyncGenerator[Session]:
    """Connect to a server and yield a session. Any failure to connect raises; the caller reports it.

    `on_exit` receives the last line that a server process wrote to stderr, when it ends. `login` is what signing in
    needs; without it, a server that wants a token refuses.
    """
    tool_filter = _ToolListFilter(needs_whole_lists=isinstance(server.transport, HttpTransport))
    lost, list_changed = asyncio.Event(), asyncio.Event()
    requests = ServerRequests(server, elicit, sampler, [], lost)

    async def on_elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestURLParams):
            answer = await requests.answer(params.message, {}, params.url)
            return types.ElicitResult(action=answer.action)
        answer = await requests.answer(params.message, cast("Any", params.requested_schema))
        content = dict(answer.content) if answer.action == "accept" else None
        return types.ElicitResult(action=answer.action, content=content)

    async def on_sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        try:
            sample = await requests.sample(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        except FerruleError as refusal:
            return types.ErrorData(code=types.INVALID_REQUEST, message=refusal.message)
        content = types.TextContent(type="text", text=sample.text)
        return types.CreateMessageResult(
            role="assistant", content=content, model=sample.model, stop_reason=sample.reason
        )

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            list_changed.set()

    transport = _open_transport(server, tool_filter, max_bytes, lost, list_changed, on_exit, login)
    client = Client(
        transport,
        elicitation_callback=on_elicit,
        # Without it, the server is not told that it could ask.
        sampling_callback=on_sample if server.sampling is not None else None,
        message_handler=on_message,
        client_info=_CLIENT_INFO,
        extensions=task_extensions(),
        cache=None,
    )
    async with client:
        # The SDK validates answers with a validator that a hostile schema can block for minutes; ours has a limit.
        client.session.validate_tool_result = _skip_validation
        session = Session(server, client, tool_filter, lost, list_changed, running=requests.running)
        tool_filter.is_modern = client.session.discover_result is not None
        yield session


_CLIENT_INFO = types.Implementation(name="ferrule", version="1")


async def _skip_validation(name: str, result: types.CallToolResult) -> None:
    """Do nothing: `outcome_of_result` validates structured content."""


def _error_of(code: int, message: str) -> dict[str, Any]:
    return {"code": code, "message": message, "data": {"ferrule": _TRANSPORT_MARKER}}


def is_from_transport(error: MCPError) -> bool:
    """Whether an error comes from our own transports, and not from the server."""
    return error.data == {"ferrule": _TRANSPORT_MARKER}


@asynccontextmanager
async def _open_transport(
    server: Server,
    tool_filter: _ToolListFilter,
    max_bytes: int,
    lost: asyncio.Event,
    list_changed: asyncio.Event,
    on_exit: OnExit,
    login: Login | None,
) -> AsyncGenerator[Any]:
    match server.transport:
        case StdioTransport() as transport:
            async with _open_pipe(transport, max_bytes, lost, on_exit) as (read, write):
                tool_filter.inner = read
                yield tool_filter, write
        case HttpTransport() as transport:
            sign_in, need_login = None, list_changed.set
            if login is not None and transport.may_sign_in:
                sign_in, need_login = SignIn(server, transport, login.store, login.person), login.need
            limits = (server.timeouts.connect, max_bytes)
            web = client_for(transport, *limits, _error_of, list_changed.set, sign_in, need_login)
            async with (
                web,
                streamable_http_client(transport.url, http_client=web, max_sse_event_size=max_bytes) as ends,
            ):
                tool_filter.inner, write = ends
                yield tool_filter, write


class _ToolListFilter:
    """Removes invalid tools from a server's tool lists, because the SDK would reject the whole list.

    It also removes all tools of a list that is `known`: then the SDK has nothing to validate and to convert. A server
    of the newer protocol on HTTP is an exception, as the SDK reads in the list which arguments go into headers.
    """

    def __init__(self, *, needs_whole_lists: bool) -> None:
        self.inner: Any = None
        self.faults: list[str] = []
        self.is_modern = False
        self.known = ""
        self.fingerprint = ""
        self._needs_whole_lists = needs_whole_lists

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
        if "content" not in result and ("task" in result or result.get("resultType") == "task"):
            hide_task(result)
        if isinstance(result.get("tools"), list) and "content" not in result:
            self.fingerprint = raw_digest(result["tools"])
            is_known = bool(self.known) and self.fingerprint == self.known
            if is_known and not (self.is_modern and self._needs_whole_lists):
                result["tools"] = []
            else:
                result["tools"], self.faults = valid_tools(result["tools"], is_modern=self.is_modern)
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
