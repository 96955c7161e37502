"""Our own parser behind the same interface as the others, so that all are judged alike."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ferrule.core.reply import Reply, fold
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser
from lab.peers.outcome import Outcome


def definitions(tools: Sequence[Mapping[str, Any]]) -> tuple[ToolDefinition, ...]:
    """Convert tools from OpenAI's format to ours."""
    functions = [tool["function"] for tool in tools]
    return tuple(
        ToolDefinition(function["name"], function["description"], function["parameters"]) for function in functions
    )


def stream(form: Format, chunks: Iterable[str], tools: Sequence[ToolDefinition]) -> Outcome:
    """Parse a reply that arrives in these chunks. A whole reply is one chunk: there is no separate code path."""
    return outcome(read(form, chunks, tools))


def read(form: Format, chunks: Iterable[str], tools: Sequence[ToolDefinition]) -> Reply:
    parser = Parser(form, tools)
    feed = parser.feed
    events = [event for chunk in chunks for event in feed(chunk)]
    return fold([*events, *parser.close()])


def outcome(reply: Reply) -> Outcome:
    return {
        "content": reply.text,
        "calls": [{"name": call.name, "arguments": call.function.arguments} for call in reply.calls],
        "error": None,
    }
