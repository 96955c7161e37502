"""`ferrule trace`: prints one conversation: its messages, its calls as a timeline, and its prompts.

It also prints a trace, which a conversation has too if its calls were run by the client.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, moment, on_ledger
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.core.media import Media, media_line
from ferrule.core.message import ChatMessage, Reasoning, Text, messages_from_json
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import AuditRecord, CallRecord, CallState, ConversationRecord, Ledger
from ferrule.run.ledger.trace import PromptPrefix, Trace, TracedRequest

# Timeline: the calls of a conversation over time, drawn to scale as text. It knows no ledger and no terminal.
#
# The times come from the audit log. A call waits for approval, runs and ends, or its outcome is unknown.

WIDTH = 24
_WAITS, _RUNS, _LOST, _IDLE = "░", "█", "?", " "
_ENDS = frozenset(
    state.value for state in (CallState.DONE, CallState.FAILED, CallState.UNKNOWN, CallState.DENIED, CallState.REFUSED)
)
LEGEND = f"{_WAITS} waiting for approval   {_RUNS} running   {_LOST} outcome unknown"


@dataclass(slots=True)
class Span:
    """One call: the times of its states, and who decided on it."""

    tool: str = ""
    side_effects: bool = False
    at: dict[str, float] = field(default_factory=dict[str, float])
    decided_by: str = ""

    @property
    def end(self) -> str:
        """The final state, or the current one."""
        return next((state for state in self.at if state in _ENDS), [*self.at][-1] if self.at else "")

    def seconds(self, since: str, until: str) -> float | None:
        if since not in self.at or until not in self.at:
            return None
        return self.at[until] - self.at[since]


@dataclass(frozen=True, slots=True)
class Timeline:
    began: float
    ended: float
    owners: int
    """How many processes have had the lease of the conversation, one after the other."""
    spans: dict[str, Span]

    @staticmethod
    def of(rows: Sequence[AuditRecord], calls: Iterable[CallRecord]) -> Timeline:
        spans = {call.id: Span(call.tool, call.side_effects) for call in calls}
        for row in rows:
            span = spans.get(row.call_id)
            if span is None:
                continue
            span.at.setdefault(row.kind, row.at)
            if row.kind in (CallState.APPROVED.value, CallState.DENIED.value):
                span.decided_by = row.by
        ordered = sorted(spans.items(), key=lambda pair: min(pair[1].at.values(), default=0.0))
        times = [row.at for row in rows]
        owners = len({row.epoch for row in rows})
        return Timeline(min(times, default=0.0), max(times, default=0.0), owners, dict(ordered))

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def scale(self) -> str:
        return f"0 to {self.seconds:.2f} s"

    def bar(self, span: Span) -> str:
        """Draw a call, to the scale of the whole conversation."""
        begins = {
            self._column(at): mark
            for state, mark in ((CallState.AWAITING_APPROVAL, _WAITS), (CallState.STARTED, _RUNS))
            if (at := span.at.get(state.value)) is not None
        }
        last = span.at.get(span.end, self.ended)
        mark, drawn = _IDLE, ""
        for column in range(self._column(last) + 1):
            mark = begins.get(column, mark)
            drawn += mark
        return drawn[:-1] + _LOST if span.end == CallState.UNKNOWN.value else drawn

    def describe(self, span: Span) -> str:
        """Describe a call: its final state, how long it ran, and who decided on it after how long."""
        ran = span.seconds(CallState.STARTED.value, span.end)
        words = [span.end if ran is None else f"{span.end} in {ran:.3f} s"]
        for state in (CallState.APPROVED.value, CallState.DENIED.value):
            waited = span.seconds(CallState.AWAITING_APPROVAL.value, state)
            if waited is not None:
                words.append(f"{state} by {span.decided_by} after {waited:.1f} s")
        return ", ".join(dict.fromkeys(words))

    def _column(self, at: float) -> int:
        share = (at - self.began) / self.seconds if self.seconds else 0.0
        return min(WIDTH - 1, max(0, int(share * WIDTH)))


_MAX_LENGTH = 400


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="CONVERSATION", help="its id, or that of a trace")
    add_ledger_option(parser)
    parser.add_argument("--tenant", default=Principal().tenant, help="of a trace (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    name = arguments.conversation

    async def read(ledger: Ledger) -> tuple[ConversationRecord | None, Timeline, Trace | None]:
        conversation = await ledger.load(name)
        trace = await ledger.trace(name, conversation.tenant if conversation else arguments.tenant)
        return conversation, Timeline.of(await ledger.audit(name), await ledger.calls(name)), trace

    conversation, timeline, trace = on_ledger(arguments.ledger, read)
    requests = trace.requests if trace else ()
    if conversation is None and requests:
        if arguments.json:
            streams.write(json_view.page({"trace": name, "requests": _request_documents(requests)}) + "\n")
        else:
            _show_requests(requests)
        return
    if conversation is None:
        raise LedgerError(
            f"unknown conversation {terminal.printable(name)!r}",
            code="unknown_conversation",
            hint="`ferrule approvals show` prints the conversation of a pending call.",
        )
    messages = messages_of(_state(conversation))
    if arguments.json:
        document = _document(conversation, timeline, messages)
        streams.write(json_view.page({**document, "requests": _request_documents(requests)}) + "\n")
    else:
        _show(conversation, timeline, messages)
        if requests:
            streams.write("\n")
            _show_requests(requests)


def _state(conversation: ConversationRecord) -> dict[str, Any]:
    return conversation.state or {}


def messages_of(state: dict[str, Any]) -> tuple[ChatMessage, ...]:
    """The messages so far, including those of an unfinished turn."""
    loop: dict[str, Any] = state.get("loop") or {}
    return messages_from_json([*state.get("messages", []), *loop.get("added", [])])


def _show(conversation: ConversationRecord, timeline: Timeline, messages: Iterable[ChatMessage]) -> None:
    loop: dict[str, Any] | None = _state(conversation).get("loop")
    state = str(loop["machine"]["state"]) if loop else "idle"
    owners = f"{timeline.owners} processes in turn" if timeline.owners > 1 else "one process"
    facts = f"{conversation.principal} of {conversation.tenant}; {state}; {owners}; began {moment(timeline.began)}"
    text = "\n".join(line for message in messages for line in _lines(message)) or "none"
    terminal.show_sections(conversation.id, [("conversation", facts), ("messages", text)])
    streams.write("\n")
    rows = [
        (
            place,
            span.tool + (" (effect)" if span.side_effects else ""),
            timeline.bar(span),
            timeline.describe(span),
        )
        for place, span in timeline.spans.items()
    ]
    if rows:
        terminal.show_table(("call", "tool", timeline.scale, "outcome"), rows)
        streams.write(f"{LEGEND}\n")


def _show_requests(requests: Iterable[TracedRequest]) -> None:
    """Show what the engine read of the prompt of each request, and what was changed in it."""
    rows = [
        (
            moment(one.at),
            one.status.value,
            f"{one.prompt_tokens}",
            f"{one.read_tokens}",
            _change_text(one.prompt_prefix),
        )
        for one in requests
    ]
    terminal.show_table(("request", "status", "prompt tokens", "read", "changed"), rows)


def _change_text(prefix: PromptPrefix | None) -> str:
    if prefix is None:
        return ""
    return f"by the {prefix.by.value}: {prefix.what}" if prefix.by else "nothing"


def _request_documents(requests: Iterable[TracedRequest]) -> list[dict[str, Any]]:
    return [
        {
            "id": one.id,
            "at": one.at,
            "status": one.status.value,
            "prompt_tokens": one.prompt_tokens,
            "read_tokens": one.read_tokens,
            "changed_by": one.prompt_prefix.by.value if one.prompt_prefix else "",
            "changed": one.prompt_prefix.what if one.prompt_prefix else "",
        }
        for one in requests
    ]


def _lines(message: ChatMessage) -> list[str]:
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text(text):
                lines.append(text)
            case Reasoning(text):
                lines.append(f"(reasoning) {text}")
            case ToolCall():
                lines.append(f"calls {part.name}({part.function.arguments})")
            case ToolResult(_, name, content, is_error):
                text_of_content = content if isinstance(content, str) else dumps(content)
                lines.append(f"{name} {'failed' if is_error else 'returned'}: {text_of_content}")
                lines += map(media_line, part.media)
            case Media():
                lines.append(media_line(part))
    return [f"{message.role.value:>9}  {_short(line)}" for line in lines if line.strip()]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}... ({len(line)} characters)"


def _document(conversation: ConversationRecord, timeline: Timeline, messages: Iterable[ChatMessage]) -> dict[str, Any]:
    return {
        "conversation": conversation.id,
        "principal": conversation.principal,
        "tenant": conversation.tenant,
        "began": timeline.began,
        "seconds": timeline.seconds,
        "processes": timeline.owners,
        "messages": [line.strip() for message in messages for line in _lines(message)],
        "calls": [
            {"place": place, "tool": span.tool, "side_effects": span.side_effects, "state": span.end, "at": span.at}
            for place, span in timeline.spans.items()
        ],
    }


COMMAND = Command(
    name="trace",
    about="Print one conversation as a timeline.",
    more="Prints the messages and calls, how long each call waited for approval and ran, and its outcome; then how\n"
    "much of each request's prompt the engine read, and what was changed in it since the one before.\n"
    "`ferrule audit` prints every state transition and verifies the log.",
    examples="  ferrule trace c-7f3a --ledger ledger.db\n  ferrule trace c-7f3a --ledger ledger.db --json",
    add_options=_add_options,
    run=_run,
)
