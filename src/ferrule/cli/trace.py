"""`ferrule trace`: prints one conversation: its messages, and its calls as a timeline."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, moment, on_ledger
from ferrule.cli.timeline import LEGEND, Timeline
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage, Reasoning, Text
from ferrule.core.message_json import messages_from_json
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import ConversationRecord, Ledger

_MAX_LENGTH = 400


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="CONVERSATION", help="its id")
    add_ledger_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    name = arguments.conversation

    async def read(ledger: Ledger) -> tuple[ConversationRecord | None, Timeline]:
        return await ledger.load(name), Timeline.of(await ledger.audit(name), await ledger.calls(name))

    conversation, timeline = on_ledger(arguments.ledger, read)
    if conversation is None:
        raise LedgerError(
            f"unknown conversation {terminal.printable(name)!r}",
            code="unknown_conversation",
            hint="`ferrule approvals show` prints the conversation of a pending call.",
        )
    messages = messages_of(_state(conversation))
    if arguments.json:
        streams.write(json_view.page(_document(conversation, timeline, messages)) + "\n")
    else:
        _show(conversation, timeline, messages)


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
    more="Prints the messages and calls, how long each call waited for approval and ran, and its outcome.\n"
    "`ferrule audit` prints every state transition and verifies the log.",
    examples="  ferrule trace c-7f3a --ledger ledger.db\n  ferrule trace c-7f3a --ledger ledger.db --json",
    add_options=_add_options,
    run=_run,
)
