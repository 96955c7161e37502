"""HostedEncoder: encodes an answer of several rounds, in which the gateway runs tools, as the events of one response.

A call that the gateway runs becomes an `mcp_call` item. The item stays open while its tool runs, next to other items,
and is done when the tool is. A call that may need approval is not announced before its tool starts; if it is still
waiting when the turn ends, an `mcp_approval_request` item is sent instead. The encoder is independent of the loop and
the ledger: the caller reports what happens.

The API has no event for a cancelled response. Its stream ends with `response.incomplete`, which every client treats as
the end, and the response in it has the API's status "cancelled".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ferrule.core.call import FunctionCall, Receipt, ToolCall, ToolResult
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolSearch,
)
from ferrule.core.ids import make_unique
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.caller_error import caller_error
from ferrule.dialects.extension import KEY, Extension
from ferrule.dialects.openai_responses.client_tools import (
    ClientTool,
    ClientToolKind,
    custom_input,
    search_arguments,
)
from ferrule.dialects.openai_responses.found_tools import found_tools
from ferrule.dialects.openai_responses.hosted_tools import HostedTool
from ferrule.dialects.openai_responses.open_item import Events, OpenItem
from ferrule.dialects.openai_responses.output_items import (
    approval_item,
    call_item,
    custom_item,
    failure_of,
    hosted_call_item,
    list_item,
    message_item,
    reasoning_item,
    search_item,
    search_output_item,
    server_search_item,
)
from ferrule.dialects.openai_responses.snapshot import Snapshot, merge_extensions
from ferrule.dialects.sequence import EventSequence
from ferrule.errors import DefinitionError, FerruleError


class EventSequencer:
    """Add events one by one with `emit`, and take them out together with `drain`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._pending_extension: dict[str, Any] = {}
        self._out: Events = []

    @property
    def id(self) -> str:
        """The id of the response."""
        return self.snapshot.head["id"]

    @property
    def next_index(self) -> int:
        """The output index of the next item."""
        return len(self.snapshot.items)

    def drain(self) -> Events:
        events, self._out = self._out, []
        return events

    def add_extension(self, extension: Mapping[str, Any]) -> None:
        """Attach extension data to the next event, so that it is not lost if this process dies."""
        self._pending_extension = merge_extensions(self._pending_extension, extension)

    def emit(self, event: Mapping[str, Any]) -> None:
        extension = (
            merge_extensions(event.get(KEY, {}), self._pending_extension) if self._pending_extension else event.get(KEY)
        )
        self._pending_extension = {}
        numbered = {**event, "sequence_number": self.snapshot.number}
        if extension:
            numbered[KEY] = extension
        self.snapshot.apply(numbered)
        self._out.append(numbered)

    def emit_state(self, state: str, status: str) -> None:
        """Emit a state of the response before it has any output."""
        output: Events = []
        self.emit({"type": f"response.{state}", "response": {**self.snapshot.head, "status": status, "output": output}})

    def emit_last(self, state: str, status: str, **fields: Any) -> None:
        self.snapshot.add_extension(self._pending_extension)
        self._pending_extension = {}
        self.emit({"type": f"response.{state}", "response": self.snapshot.response(status, **fields)})

    def open_item(self, item: dict[str, Any]) -> OpenItem:
        for event in OpenItem(item, self.next_index).begin_events():
            self.emit(event)
        return self.snapshot.items[-1]

    def end_item(self, item: OpenItem, status: str, extension: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Emit the last events of an item. `extension` is attached to the very last."""
        *earlier, last = item.end_events(status, **fields)
        for event in earlier:
            self.emit(event)
        self.emit({**last, **(extension or {})})


_ERROR_CODES = {429: "rate_limit_exceeded"}


@dataclass(slots=True)
class _Round:
    """The state of one round. Each round numbers its calls from 0."""

    sequence: EventSequence = field(default_factory=EventSequence)
    ids: list[str] = field(default_factory=list[str])
    is_over: bool = False

    @property
    def last_id(self) -> str:
        """The id of the last call. Duplicate ids are made unique in the same way as in the loop."""
        return make_unique(self.ids)[-1]


class HostedEncoder:
    """`head` comes from `head_of`. `hosted` are the gateway's tools, by the names that the model uses.

    Calls of all other tools are the client's; `client_tools` says what it knows those as that are not plain functions.
    Calls of `late_tools` are not shown as the model writes them, but by `finish`: the process that writes their items
    is then the one that ends the response, and after a takeover no client finds such a call twice. `tools` are the
    client's, of which those of `deferred` are for a search to find.
    Every method returns the events to send; after the last event of the response there are none.
    """

    def __init__(
        self,
        head: Mapping[str, Any],
        hosted: Mapping[str, HostedTool] | None = None,
        client_tools: Mapping[str, ClientTool] | None = None,
        late_tools: frozenset[str] = frozenset(),
        tools: Iterable[ToolDefinition] = (),
        deferred: frozenset[str] = frozenset(),
    ) -> None:
        self._hosted = hosted or {}
        self._tools = {tool.name: tool for tool in tools}
        self._deferred = deferred
        self._client_tools = client_tools or {}
        self._late_tools = late_tools
        self._is_late = False
        """Whether the model writes a call of a late tool."""
        self._sequencer = EventSequencer(Snapshot(head))
        self._round = _Round()
        self._item: OpenItem | None = None
        """The item that the model writes now: text, reasoning or a call."""
        self._converted: ClientTool | None = None
        """The tool that the model calls now, if the item of its call is made at the end of the call."""
        self._written: list[str] = []
        """The arguments, so far, of a call whose item does not show them as they are."""
        self._running: dict[str, OpenItem] = {}
        self._unannounced: dict[str, Receipt | None] = {}
        """The receipts of calls that have no item yet, by call id."""
        self._approval_requests: dict[str, tuple[ToolCall, str]] = {}
        self._reason = FinishReason.STOP
        self._is_broken = False

    @staticmethod
    def restore(
        events: Iterable[dict[str, Any]],
        hosted: Mapping[str, HostedTool] | None = None,
        client_tools: Mapping[str, ClientTool] | None = None,
        late_tools: frozenset[str] = frozenset(),
        tools: Iterable[ToolDefinition] = (),
        deferred: frozenset[str] = frozenset(),
    ) -> HostedEncoder:
        """Return an encoder that continues after the events of another encoder. It closes open items first."""
        snapshot = Snapshot.of(events)
        if not snapshot.head:
            raise DefinitionError("there are no events to continue from", hint="Create a new encoder.")
        encoder = HostedEncoder(snapshot.head, hosted, client_tools, late_tools, tools, deferred)
        encoder._sequencer = EventSequencer(snapshot)
        encoder._is_broken = True
        return encoder

    @property
    def is_over(self) -> bool:
        return self._sequencer.snapshot.is_over

    @property
    def response(self) -> dict[str, Any]:
        """The response as of the events so far: the body of an answer that is not streamed."""
        return self._sequencer.snapshot.response()

    def queue(self) -> Events:
        """Emit that the response exists and is queued."""
        snapshot = self._sequencer.snapshot
        if not snapshot.has_state("created"):
            self._sequencer.emit_state("created", "queued")
        if not snapshot.has_state("queued") and not snapshot.has_state("in_progress"):
            self._sequencer.emit_state("queued", "queued")
        return self._sequencer.drain()

    def begin(self) -> Events:
        """Emit that the response is in progress. Every other method does this first if needed."""
        self._begin()
        return self._sequencer.drain()

    def list_tools(self, label: str, tools: Iterable[HostedTool], error: str = "") -> Events:
        """List the tools of a server that the client declared; `error` says why they could not be listed."""
        if self._begin():
            item = self._sequencer.open_item(list_item(self._sequencer.id, self._sequencer.next_index, label))
            self._sequencer.emit(item.step("in_progress"))
            self._sequencer.emit(item.step("failed" if error else "completed"))
            self._sequencer.end_item(
                item, "completed", tools=[tool.as_list_entry() for tool in tools], error=error or None
            )
        return self._sequencer.drain()

    def feed(self, event: Event) -> Events:
        """Encode an event of the model. `Finish` ends a round, not the response."""
        if self._begin():
            if self._round.is_over:
                self._round = _Round()
                self._abandon_calls()
            for ordered in self._round.sequence.feed(event):
                self._encode(ordered)
        return self._sequencer.drain()

    def start_tool(self, call: ToolCall, approval_request_id: str = "") -> Events:
        """A call's tool starts. `approval_request_id` is the approval request of an earlier response."""
        if self._begin():
            receipt = self._unannounced.pop(call.id, None) or call.receipt
            self._approval_requests.pop(call.id, None)
            item = self._running.get(call.id)
            if item is None:
                item = self._open_call(call.id, call.name, approval_request_id)
                self._sequencer.emit(item.delta(call.function.arguments))
                self._settle(item, call.id, receipt)
            self._sequencer.emit(item.step("in_progress"))
        return self._sequencer.drain()

    def report_progress(self, call_id: str, progress: Mapping[str, Any]) -> Events:
        """Report a tool's progress. The API has no field for it, so it comes with a repeated `in_progress` event."""
        item = self._running.get(call_id)
        if item is not None and self._begin():
            self._sequencer.emit({**item.step("in_progress"), KEY: {"progress": dict(progress)}})
        return self._sequencer.drain()

    def finish_tool(self, result: ToolResult) -> Events:
        """A call has ended with the result that the model reads. A call that was never announced has no item."""
        item = self._running.pop(result.tool_call_id, None)
        if item is not None and self._begin():
            self._sequencer.emit(item.step("failed" if result.is_error else "completed"))
            if result.is_error:
                self._sequencer.end_item(item, "failed", error=failure_of(result.text))
            else:
                self._sequencer.end_item(item, "completed", output=result.text)
        return self._sequencer.drain()

    def request_approval(self, call: ToolCall, approval: str = "") -> Events:
        """A call waits for approval; `approval` is the id to answer. The item is sent when the turn ends waiting."""
        self._begin()
        self._approval_requests[call.id] = (call, approval)
        return self._sequencer.drain()

    def drop_approval(self, call_id: str) -> None:
        """Forget a call that waited and will not run."""
        self._unannounced.pop(call_id, None)
        self._approval_requests.pop(call_id, None)

    def finish(
        self, *, waits: bool = False, completed_at: int | None = None, late_calls: Iterable[ToolCall] = ()
    ) -> Events:
        """End the response. `waits`: it ends waiting for approvals. An answer that was cut off ends incomplete.

        `completed_at` is the time, in seconds, at which a response that is not cut off was complete.
        """
        if self._begin():
            self._close("completed")
            for call in late_calls:
                self._add_late_call(call)
            if waits:
                self._add_approval_items()
            if self._reason is FinishReason.LENGTH and not waits:
                self._sequencer.emit_last(
                    "incomplete", "incomplete", incomplete_details={"reason": "max_output_tokens"}
                )
            else:
                self._sequencer.emit_last("completed", "completed", completed_at=completed_at)
        return self._sequencer.drain()

    def stop_early(self, reason: str | None = None) -> Events:
        """End the response early. `reason` is the API's reason, if it has one."""
        if self._begin():
            self._close()
            self._sequencer.emit_last("incomplete", "incomplete", incomplete_details={"reason": reason})
        return self._sequencer.drain()

    def cancel(self) -> Events:
        """End a response that was cancelled."""
        if self._begin():
            self._close()
            self._sequencer.emit_last("incomplete", "cancelled")
        return self._sequencer.drain()

    def fail(self, error: FerruleError) -> Events:
        """End the response with an error."""
        if self._begin():
            self._close()
            code = _ERROR_CODES.get(error.status, "invalid_prompt" if error.status < 500 else "server_error")
            shown = caller_error(error)
            self._sequencer.add_extension({"error": {"code": shown.code, "retryable": error.retryable}})
            self._sequencer.emit_last("failed", "failed", error={"code": code, "message": shown.text})
        return self._sequencer.drain()

    def close(self) -> Events:
        """End the items of an answer that was cut off; the response itself gets no last event."""
        if not self.is_over:
            self._close()
        return self._sequencer.drain()

    def _begin(self) -> bool:
        """Begin the response if needed. Returns False if it is already over."""
        if self.is_over:
            return False
        if self._is_broken:
            self._close()
        for state in ("created", "in_progress"):
            if not self._sequencer.snapshot.has_state(state):
                self._sequencer.emit_state(state, "in_progress")
        return True

    def _encode(self, event: Event) -> None:
        match event:
            case TextDelta(text) if text:
                self._add_text("message", text)
            case ReasoningDelta(text) if text:
                self._add_text("reasoning", text)
            case CallStart(_, id, name):
                self._begin_call(id, name)
            case ArgumentsDelta(_, json) if self._item:
                self._sequencer.emit(self._item.delta(json))
            case ArgumentsDelta(_, json):
                self._written.append(json)
            case CallEnd():
                self._end_call(event)
            case ToolSearch() if event.declared:
                self._add_search(event)
            case Finish():
                self._end_round(event)
            case _:
                pass

    def _add_text(self, kind: str, text: str) -> None:
        if self._item is None or self._item.kind != kind:
            self._end_text()
            make = message_item if kind == "message" else reasoning_item
            self._item = self._sequencer.open_item(make(self._sequencer.id, self._sequencer.next_index))
        self._sequencer.emit(self._item.delta(text))

    def _add_search(self, search: ToolSearch) -> None:
        """Emit a search that the client declared, and what it found. A search that failed found nothing."""
        self._end_text()
        sequencer = self._sequencer
        arguments = search_arguments(search.call.function.arguments) or {}
        item = sequencer.open_item(server_search_item(sequencer.id, sequencer.next_index, arguments))
        sequencer.end_item(item, "completed")
        output = sequencer.open_item(search_output_item(sequencer.id, sequencer.next_index))
        declared: list[dict[str, Any]] = sequencer.snapshot.head.get("tools") or []
        tools = found_tools(
            search.found, declared, client_tools=self._client_tools, hosted=self._hosted, tools=self._tools
        )
        sequencer.end_item(output, "completed", tools=tools)

    def _client_tool(self, name: str) -> ClientTool | None:
        """Return what the caller knows a tool as. A deferred function in no namespace has its own name as one."""
        tool = self._client_tools.get(name)
        if name in self._deferred and (tool is None or not tool.namespace):
            return replace(tool or ClientTool(name), namespace=name)
        return tool

    def _begin_call(self, id: str, name: str) -> None:
        self._end_text()
        self._round.ids.append(id)
        self._written = []
        tool = self._client_tool(name)
        self._is_late = name in self._late_tools
        if self._is_late:
            return
        if tool is not None and tool.kind is not ClientToolKind.FUNCTION:
            self._converted = tool
        elif name not in self._hosted:
            new_item = call_item(self._sequencer.id, self._sequencer.next_index, id, name, tool)
            self._item = self._sequencer.open_item(new_item)
        elif self._hosted[name].may_need_approval:
            self._unannounced[self._round.last_id] = None
        else:
            self._item = self._open_call(self._round.last_id, name, "")

    def _add_late_call(self, call: ToolCall) -> None:
        """Emit a call that the client runs, whole."""
        tool, arguments = self._client_tool(call.name), call.function.arguments
        if tool is not None and tool.kind is not ClientToolKind.FUNCTION:
            self._round.ids.append(call.id)
            self._written = [arguments]
            self._add_converted_call(tool, call.receipt)
            return
        new_item = call_item(self._sequencer.id, self._sequencer.next_index, call.id, call.name, tool)
        item = self._sequencer.open_item(new_item)
        self._sequencer.emit(item.delta(arguments))
        self._sequencer.end_item(item, "completed", _receipt_field(call.id, call.receipt))

    def _end_call(self, end: CallEnd) -> None:
        if self._is_late:
            self._is_late = False
            return
        id = self._round.last_id
        item, self._item = self._item, None
        tool, self._converted = self._converted, None
        if tool is not None:
            if end.complete:
                self._add_converted_call(tool, end.receipt)
        elif item is None and end.complete:
            self._unannounced[id] = end.receipt
        elif item is None:
            self._unannounced.pop(id, None)
        elif item.kind == "mcp_call" and end.complete:
            self._settle(item, id, end.receipt)
        elif end.complete:
            self._sequencer.end_item(item, "completed", _receipt_field(item.item["call_id"], end.receipt))
        else:
            self._running.pop(id, None)
            self._sequencer.end_item(item, "incomplete")

    def _add_converted_call(self, tool: ClientTool, receipt: Receipt | None) -> None:
        """Emit a call whose arguments the API shows in another form than the model wrote them."""
        call_id, written = self._round.ids[-1], "".join(self._written)
        place = (self._sequencer.id, self._sequencer.next_index, call_id)
        text, arguments = custom_input(written), search_arguments(written)
        if tool.kind is ClientToolKind.CUSTOM and text is not None:
            item = self._sequencer.open_item(custom_item(*place, tool))
            self._sequencer.emit(item.delta(text))
            self._sequencer.end_item(item, "completed", _receipt_field(call_id, receipt))
        elif tool.kind is ClientToolKind.TOOL_SEARCH and arguments is not None:
            item = self._sequencer.open_item(search_item(*place))
            self._sequencer.end_item(item, "completed", _receipt_field(call_id, receipt), arguments=arguments)
        else:
            incomplete = {call_id: FunctionCall(tool.name, written)}
            self._sequencer.add_extension(Extension(incomplete=incomplete).as_field()[KEY])

    def _end_round(self, finish: Finish) -> None:
        self._end_text()
        self._reason = finish.reason
        self._round.is_over = True
        self._sequencer.add_extension(self._round.sequence.extension.as_field().get(KEY, {}))
        if finish.usage:
            self._sequencer.add_extension({"usage": asdict(finish.usage)})

    def _open_call(self, call_id: str, name: str, approval: str) -> OpenItem:
        new_item = hosted_call_item(
            self._sequencer.id, self._sequencer.next_index, name, self._hosted.get(name), approval
        )
        item = self._running[call_id] = self._sequencer.open_item(new_item)
        return item

    def _settle(self, item: OpenItem, call_id: str, receipt: Receipt | None) -> None:
        """Emit that the arguments of a hosted call are complete, with its receipt."""
        for event in item.done_events():
            self._sequencer.emit({**event, **_receipt_field(call_id, receipt)})

    def _add_approval_items(self) -> None:
        """Emit the approval requests, except those that an earlier process already emitted."""
        item_ids = {item.item["id"] for item in self._sequencer.snapshot.items}
        for call, approval in self._approval_requests.values():
            item = approval_item(
                self._sequencer.id, self._sequencer.next_index, call, self._hosted.get(call.name), approval
            )
            if item["id"] not in item_ids:
                self._sequencer.end_item(self._sequencer.open_item(item), "completed")

    def _end_text(self) -> None:
        """End the open text or reasoning item."""
        item, self._item = self._item, None
        if item is not None:
            self._sequencer.end_item(item, "completed")

    def _abandon_calls(self) -> None:
        """Close the calls of the previous round that never ran: the next round has started without them."""
        for item in self._running.values():
            self._sequencer.end_item(item, "incomplete")
        self._running.clear()
        self._unannounced.clear()
        self._approval_requests.clear()

    def _close(self, text_status: str = "incomplete") -> None:
        """Close all items. `text_status` is the status of an open text item."""
        self._is_broken = False
        if not self._round.is_over:
            for ordered in self._round.sequence.close():
                self._encode(ordered)
            self._sequencer.add_extension(self._round.sequence.extension.as_field().get(KEY, {}))
            self._round.is_over = True
        for item in self._sequencer.snapshot.open_items:
            self._sequencer.end_item(item, text_status if item is self._item else "incomplete")
        self._item = None
        self._running.clear()
        self._unannounced.clear()


def _receipt_field(call_id: str, receipt: Receipt | None) -> dict[str, Any]:
    return Extension({call_id: receipt} if receipt else {}).as_field()
