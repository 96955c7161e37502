"""HostedEncoder: an answer of several rounds, in which the gateway runs tools itself, as the events of one response.

A call of the gateway's becomes an `mcp_call`. Its item stays open while its tool runs, beside others, and is done when
the tool is. A call that may have to wait for leave is not told of before it starts; if it is still waiting when the
turn ends, an `mcp_approval_request` is told instead. Knows neither the loop nor the ledger: it is told what happens.

The API has no event for a response that was cancelled. Its stream ends with `response.incomplete`, which every client
takes for an end, and the response in it has the status "cancelled", which is the API's own word for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
)
from ferrule.core.ids import apart
from ferrule.core.receipt import Receipt
from ferrule.dialects.extension import KEY, Extension
from ferrule.dialects.openai_responses.event_sequencer import Teller
from ferrule.dialects.openai_responses.hosted_tools import HostedTool
from ferrule.dialects.openai_responses.open_item import OpenItem, Told
from ferrule.dialects.openai_responses.output_items import (
    approval_item,
    call_item,
    failure_of,
    hosted_call_item,
    list_item,
    message_item,
    reasoning_item,
)
from ferrule.dialects.openai_responses.snapshot import Snapshot
from ferrule.dialects.sequence import Sequence
from ferrule.errors import DefinitionError, FerruleError

_ERROR_CODES = {429: "rate_limit_exceeded"}


@dataclass(slots=True)
class _Round:
    """What belongs to one answer of the model: the next begins with calls numbered from 0."""

    sequence: Sequence = field(default_factory=Sequence)
    ids: list[str] = field(default_factory=list[str])
    is_over: bool = False

    @property
    def last_id(self) -> str:
        """That of the last call. The loop tells calls with one id apart, and this is how."""
        return apart(self.ids)[-1]


class HostedEncoder:
    """`head` is made by `head_of`. `hosted` are the gateway's tools, by the names that the model knows; the calls of
    all others are the client's. Every method gives the events to tell; after the last of the response there are none.
    """

    def __init__(self, head: Mapping[str, Any], hosted: Mapping[str, HostedTool] | None = None) -> None:
        self._hosted = hosted or {}
        self._teller = Teller(Snapshot(head))
        self._round = _Round()
        self._item: OpenItem | None = None
        """What the model writes now: text, reasoning or a call."""
        self._running: dict[str, OpenItem] = {}
        self._held: dict[str, Receipt | None] = {}
        """Calls that nothing is told of yet."""
        self._asked: dict[str, tuple[ToolCall, str]] = {}
        self._reason = FinishReason.STOP
        self._is_broken = False

    @staticmethod
    def restored(events: Iterable[dict[str, Any]], hosted: Mapping[str, HostedTool] | None = None) -> HostedEncoder:
        """An encoder that goes on after these events, which another had told. Items left open are closed first."""
        snapshot = Snapshot.of(events)
        if not snapshot.head:
            raise DefinitionError("there are no events to go on from", hint="Begin a new encoder.")
        encoder = HostedEncoder(snapshot.head, hosted)
        encoder._teller = Teller(snapshot)
        encoder._is_broken = True
        return encoder

    @property
    def is_over(self) -> bool:
        return self._teller.snapshot.is_over

    @property
    def response(self) -> dict[str, Any]:
        """The response as the events so far have told it: the body of an answer that is not streamed."""
        return self._teller.snapshot.response()

    def queue(self) -> Told:
        """The response exists, and nobody has begun with it."""
        snapshot = self._teller.snapshot
        if not snapshot.has_been("created"):
            self._teller.live("created", "queued")
        if not snapshot.has_been("queued") and not snapshot.has_been("in_progress"):
            self._teller.live("queued", "queued")
        return self._teller.taken()

    def begin(self) -> Told:
        """The response is being worked on. Every other method begins it where that was not done."""
        self._begin()
        return self._teller.taken()

    def listed(self, label: str, tools: Iterable[HostedTool], error: str = "") -> Told:
        """The tools of a server that the client declared; `error` says why they could not be listed."""
        if self._begin():
            item = self._teller.open(list_item(self._teller.id, self._teller.place, label))
            self._teller.tell(item.step("in_progress"))
            self._teller.tell(item.step("failed" if error else "completed"))
            self._teller.end(item, "completed", tools=[tool.listed() for tool in tools], error=error or None)
        return self._teller.taken()

    def feed(self, event: Event) -> Told:
        """What the model says. `Finish` ends a round, not the response."""
        if self._begin():
            if self._round.is_over:
                self._round = _Round()
                self._leave()
            for plain in self._round.sequence.feed(event):
                self._say(plain)
        return self._teller.taken()

    def started(self, call: ToolCall, approval_request_id: str = "") -> Told:
        """A call's tool runs. `approval_request_id` names the item by which an earlier response asked for leave."""
        if self._begin():
            receipt = self._held.pop(call.id, None) or call.receipt
            self._asked.pop(call.id, None)
            item = self._running.get(call.id)
            if item is None:
                item = self._open_call(call.id, call.name, approval_request_id)
                self._teller.tell(item.delta(call.function.arguments))
                self._settle(item, call.id, receipt)
            self._teller.tell(item.step("in_progress"))
        return self._teller.taken()

    def progressed(self, call_id: str, told: Mapping[str, Any]) -> Told:
        """How far a tool has come: the API has no field for it, so it rides on a step that is told again."""
        item = self._running.get(call_id)
        if item is not None and self._begin():
            self._teller.tell({**item.step("in_progress"), KEY: {"progress": dict(told)}})
        return self._teller.taken()

    def finished(self, result: ToolResult) -> Told:
        """A call has ended; this is what the model will read. A call that was never told of has no item to end."""
        item = self._running.pop(result.tool_call_id, None)
        if item is not None and self._begin():
            self._teller.tell(item.step("failed" if result.is_error else "completed"))
            if result.is_error:
                self._teller.end(item, "failed", error=failure_of(result.text))
            else:
                self._teller.end(item, "completed", output=result.text)
        return self._teller.taken()

    def asked(self, call: ToolCall, approval: str = "") -> Told:
        """A call waits for leave; `approval` is the id to answer to. It is told when the turn ends waiting."""
        self._begin()
        self._asked[call.id] = (call, approval)
        return self._teller.taken()

    def denied(self, call_id: str) -> None:
        """A call that waited will not run."""
        self._held.pop(call_id, None)
        self._asked.pop(call_id, None)

    def finish(self, *, waits: bool = False) -> Told:
        """The answer is over; `waits`: for the answers to what was asked. One that was cut off ends incomplete."""
        if self._begin():
            self._close("completed")
            if waits:
                self._ask()
            if self._reason is FinishReason.LENGTH and not waits:
                self._teller.last("incomplete", "incomplete", incomplete_details={"reason": "max_output_tokens"})
            else:
                self._teller.last("completed", "completed")
        return self._teller.taken()

    def cut(self, reason: str | None = None) -> Told:
        """The answer is over before its time. `reason` is the API's word for why, where it has one."""
        if self._begin():
            self._close()
            self._teller.last("incomplete", "incomplete", incomplete_details={"reason": reason})
        return self._teller.taken()

    def cancel(self) -> Told:
        """Somebody no longer wants the answer."""
        if self._begin():
            self._close()
            self._teller.last("incomplete", "cancelled")
        return self._teller.taken()

    def fail(self, error: FerruleError) -> Told:
        """Ends the response because of an error."""
        if self._begin():
            self._close()
            code = _ERROR_CODES.get(error.status, "invalid_prompt" if error.status < 500 else "server_error")
            self._teller.note({"error": {"code": error.code, "retryable": error.retryable}})
            words = f"{error.message} {error.hint}".strip()
            self._teller.last("failed", "failed", error={"code": code, "message": words})
        return self._teller.taken()

    def close(self) -> Told:
        """Ends the items of an answer that broke off; the response itself is left without an end."""
        if not self.is_over:
            self._close()
        return self._teller.taken()

    def _begin(self) -> bool:
        """Whether there is still something to tell."""
        if self.is_over:
            return False
        if self._is_broken:
            self._close()
        for state in ("created", "in_progress"):
            if not self._teller.snapshot.has_been(state):
                self._teller.live(state, "in_progress")
        return True

    def _say(self, event: Event) -> None:
        match event:
            case TextDelta(text) if text:
                self._speak("message", text)
            case ReasoningDelta(text) if text:
                self._speak("reasoning", text)
            case CallStart(_, id, name):
                self._begin_call(id, name)
            case ArgumentsDelta(_, json) if self._item:
                self._teller.tell(self._item.delta(json))
            case CallEnd():
                self._end_call(event)
            case Finish():
                self._end_round(event)
            case _:
                pass

    def _speak(self, kind: str, text: str) -> None:
        if self._item is None or self._item.kind != kind:
            self._hush()
            make = message_item if kind == "message" else reasoning_item
            self._item = self._teller.open(make(self._teller.id, self._teller.place))
        self._teller.tell(self._item.delta(text))

    def _begin_call(self, id: str, name: str) -> None:
        self._hush()
        self._round.ids.append(id)
        if name not in self._hosted:
            self._item = self._teller.open(call_item(self._teller.id, self._teller.place, id, name))
        elif self._hosted[name].waits:
            self._held[self._round.last_id] = None
        else:
            self._item = self._open_call(self._round.last_id, name, "")

    def _end_call(self, end: CallEnd) -> None:
        id = self._round.last_id
        item, self._item = self._item, None
        if item is None and end.complete:
            self._held[id] = end.receipt
        elif item is None:
            self._held.pop(id, None)
        elif item.kind == "mcp_call" and end.complete:
            self._settle(item, id, end.receipt)
        elif end.complete:
            self._teller.end(item, "completed", _told_receipt(item.item["call_id"], end.receipt))
        else:
            self._running.pop(id, None)
            self._teller.end(item, "incomplete")

    def _end_round(self, finish: Finish) -> None:
        self._hush()
        self._reason = finish.reason
        self._round.is_over = True
        self._teller.note(self._round.sequence.extension.as_field().get(KEY, {}))
        if finish.usage:
            self._teller.note({"usage": asdict(finish.usage)})

    def _open_call(self, call_id: str, name: str, approval: str) -> OpenItem:
        begun = hosted_call_item(self._teller.id, self._teller.place, name, self._hosted.get(name), approval)
        item = self._running[call_id] = self._teller.open(begun)
        return item

    def _settle(self, item: OpenItem, call_id: str, receipt: Receipt | None) -> None:
        """The arguments of a hosted call are whole; it says so, and by which guarantee."""
        for event in item.said():
            self._teller.tell({**event, **_told_receipt(call_id, receipt)})

    def _ask(self) -> None:
        """What was asked for already, before a process died, is not asked for again."""
        told = {item.item["id"] for item in self._teller.snapshot.items}
        for call, approval in self._asked.values():
            begun = approval_item(self._teller.id, self._teller.place, call, self._hosted.get(call.name), approval)
            if begun["id"] not in told:
                self._teller.end(self._teller.open(begun), "completed")

    def _hush(self) -> None:
        """Ends the text or the reasoning under way."""
        item, self._item = self._item, None
        if item is not None:
            self._teller.end(item, "completed")

    def _leave(self) -> None:
        """A round is over and the next begins: calls that nothing came of were not run, and nobody waits for them."""
        for item in self._running.values():
            self._teller.end(item, "incomplete")
        self._running.clear()
        self._held.clear()
        self._asked.clear()

    def _close(self, spoken: str = "incomplete") -> None:
        """`spoken` is what becomes of text that nobody ended."""
        self._is_broken = False
        if not self._round.is_over:
            for plain in self._round.sequence.close():
                self._say(plain)
            self._teller.note(self._round.sequence.extension.as_field().get(KEY, {}))
            self._round.is_over = True
        for item in self._teller.snapshot.open_items:
            self._teller.end(item, spoken if item is self._item else "incomplete")
        self._item = None
        self._running.clear()
        self._held.clear()


def _told_receipt(call_id: str, receipt: Receipt | None) -> dict[str, Any]:
    return Extension({call_id: receipt} if receipt else {}).as_field()
