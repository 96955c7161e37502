"""`ferrule trace`: one conversation as a timeline: what was said, which calls were made, and what became of them."""

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

_LONGEST = 400


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="CONVERSATION", help="its id")
    add_ledger_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> None:
    name = arguments.conversation

    async def read(ledger: Ledger) -> tuple[ConversationRecord | None, Timeline]:
        return await ledger.load(name), Timeline.of(await ledger.audit(name), await ledger.calls(name))

    held, timeline = on_ledger(arguments.ledger, read)
    if held is None:
        raise LedgerError(
            f"there is no conversation {terminal.seen(name)!r}",
            code="unknown_conversation",
            hint="`ferrule approvals list` names those that wait for leave.",
        )
    messages = messages_of(_state(held))
    if arguments.json:
        streams.write(json_view.page(_document(held, timeline, messages)) + "\n")
    else:
        _show(held, timeline, messages)


def _state(held: ConversationRecord) -> dict[str, Any]:
    return held.state or {}


def messages_of(state: dict[str, Any]) -> tuple[ChatMessage, ...]:
    """What was said up to now, a turn that is not over included."""
    loop: dict[str, Any] = state.get("loop") or {}
    return messages_from_json([*state.get("messages", []), *loop.get("added", [])])


def _show(held: ConversationRecord, timeline: Timeline, messages: Iterable[ChatMessage]) -> None:
    loop: dict[str, Any] | None = _state(held).get("loop")
    state = str(loop["machine"]["state"]) if loop else "nothing under way"
    owners = f"{timeline.owners} processes in turn" if timeline.owners > 1 else "one process"
    facts = f"{held.principal} of {held.tenant}; {state}; {owners}; began {moment(timeline.began)}"
    said = "\n".join(line for message in messages for line in _lines(message)) or "nothing yet"
    terminal.show_sections(held.id, [("whose", facts), ("said", said)])
    streams.write("\n")
    rows = [
        (place, span.tool + (" (effect)" if span.side_effects else ""), timeline.bar(span), timeline.told(span))
        for place, span in timeline.spans.items()
    ]
    if rows:
        terminal.show_table(("call", "tool", timeline.scale, "what became of it"), rows)
        streams.write(f"{LEGEND}\n")


def _lines(message: ChatMessage) -> list[str]:
    told: list[str] = []
    for part in message.parts:
        match part:
            case Text(text):
                told.append(text)
            case Reasoning(text):
                told.append(f"(thinks) {text}")
            case ToolCall():
                told.append(f"calls {part.name}({part.function.arguments})")
            case ToolResult(_, name, content, is_error):
                shown = content if isinstance(content, str) else dumps(content)
                told.append(f"{name} {'failed' if is_error else 'gave'}: {shown}")
    return [f"{message.role.value:>9}  {_short(line)}" for line in told if line.strip()]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}... ({len(line)} characters)"


def _document(held: ConversationRecord, timeline: Timeline, messages: Iterable[ChatMessage]) -> dict[str, Any]:
    return {
        "conversation": held.id,
        "principal": held.principal,
        "tenant": held.tenant,
        "began": timeline.began,
        "seconds": timeline.seconds,
        "processes": timeline.owners,
        "said": [line.strip() for message in messages for line in _lines(message)],
        "calls": [
            {"place": place, "tool": span.tool, "side_effects": span.side_effects, "state": span.end, "at": span.at}
            for place, span in timeline.spans.items()
        ],
    }


COMMAND = Command(
    name="trace",
    about="Print one conversation as a timeline.",
    more="What was said, which calls were made, how long each waited for leave and ran, and what became\n"
    "of it. `ferrule audit` prints every transition and verifies them.",
    examples="  ferrule trace c-7f3a --ledger ledger.db\n  ferrule trace c-7f3a --ledger ledger.db --json",
    add_options=_add_options,
    run=_run,
)
