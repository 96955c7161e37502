"""Documents about tool calls quote them in fences, lists, tables and sentences. None of that is a call."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from ferrule import ToolDefinition, fold
from ferrule.core.event import TextDelta
from ferrule.wire.drift import DriftReader
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format

COUNT = 500
TOOLS = [
    ToolDefinition("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}}),
    ToolDefinition("send_mail", "", {"type": "object", "properties": {"to": {"type": "string"}}}),
]
CALLS = [{"name": tool.name, "arguments": {next(iter(tool.properties)): "Rome"}} for tool in TOOLS]
SENTENCES = [
    "A model asks for a tool by writing JSON.",
    "The client runs the function and sends the result back.",
    "Arguments are an object whose members the schema names.",
    "Nothing runs before the call is complete.",
    "The name must be one of those that the request offers.",
    "See the next section for streaming.",
]
QUOTES: list[Callable[[str, str], str]] = [
    lambda call, pretty: f"```json\n{pretty}\n```",
    lambda call, pretty: f"```json\n{call}\n```",
    lambda call, pretty: f"```\n{call}\n```",
    lambda call, pretty: f"```json\n[{call}]\n```",
    lambda call, pretty: f"```json {call} ```",
    lambda call, pretty: f"```python\nprint({call})\n```",
    lambda call, pretty: f"````md\n```json\n{call}\n```\n````",
    lambda call, pretty: f"~~~json\n{call}\n~~~",
    lambda call, pretty: f"- {call}\n- and so on",
    lambda call, pretty: f"1. `{call}`",
    lambda call, pretty: f"> {call}",
    lambda call, pretty: f"| call |\n|---|\n| `{call}` |",
    lambda call, pretty: f"The model then writes {call} and stops.",
    lambda call, pretty: f"`{call}` is such a call.",
    lambda call, pretty: call,
    lambda call, pretty: pretty,
    lambda call, pretty: f"[{call}]",
    lambda call, pretty: f"    {call}",
    lambda call, pretty: f"<pre>{call}</pre>",
]


def document(source: random.Random) -> str:
    """Prose, then one to three quotes with prose after each."""

    def prose() -> str:
        return " ".join(source.sample(SENTENCES, source.randint(1, 3)))

    parts = [prose()]
    for _ in range(source.randint(1, 3)):
        call = source.choice(CALLS)
        parts += [source.choice(QUOTES)(json.dumps(call), json.dumps(call, indent=2)), prose()]
    return source.choice(["\n", "\n\n"]).join(parts)


@pytest.mark.parametrize("name", ["hermes", "llama3_function_tag", "mistral_v13", "qwen_xml", "the API's own"])
def test_no_quoted_call_is_read_as_a_call(name: str) -> None:
    source = random.Random(name)
    format = None if name.startswith("the") else get_format(name)
    for _ in range(COUNT):
        text = document(source)
        reader = DriftReader(format, TOOLS)
        events = (
            [TextDelta(text)] if format is None else [*(parser := Parser(format, TOOLS)).feed(text), *parser.close()]
        )
        reply = fold([*reader.read(events), *reader.close()])
        assert (reply.calls, reply.incomplete, reader.drifted) == ((), (), {}), text
        assert reply.text == text
