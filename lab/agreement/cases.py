"""The turns that are compared: easy and difficult values, one call and several, with and without text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.ids import IdPolicy
from ferrule.core.json_schema import JsonSchema
from ferrule.core.message import Text
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition

# Templates read descriptions and `required` without checking whether they are present.
TOOL = (
    ToolDefinition.build("get_weather")
    .description("The weather")
    .parameter("city", JsonSchema.string("a city"), required=True)
    .parameter("days", JsonSchema.integer("how many"))
    .parameter("exact", JsonSchema.boolean("or about"))
    .parameter("opts", {"type": "object", "description": "more"})
    .done()
)
PING = ToolDefinition("ping", "Nothing", {"type": "object", "properties": {}, "required": []})
TOOLS = (TOOL, PING)

_PARIS: dict[str, Any] = {"city": "Paris", "days": 2}
_ROME: dict[str, Any] = {"city": "Rome"}
_HARD: dict[str, Any] = {
    "city": "Pa\"r'is <b>\nline2 é😀 \\ & ]",
    "days": -2,
    "exact": True,
    "opts": {"s": "v", "x": [1, True, None, "q", {"y": 1.5}]},
}


@dataclass(frozen=True, slots=True)
class AgreementCase:
    """Calls as names and arguments, and the text before them."""

    name: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    text: str = ""

    def reply(self, ids: IdPolicy) -> Reply:
        calls = tuple(ToolCall.of(name, args, id=ids.sample(name, n)) for n, (name, args) in enumerate(self.calls))
        return Reply((*((Text(self.text),) if self.text else ()), *calls))


CASES = (
    AgreementCase("one call", (("get_weather", _PARIS),)),
    AgreementCase("two calls", (("get_weather", _PARIS), ("get_weather", _ROME))),
    AgreementCase("text and two calls", (("get_weather", _PARIS), ("get_weather", _ROME)), "Let me look."),
    AgreementCase("hard values", (("get_weather", _HARD),)),
    AgreementCase("no arguments", (("ping", {}), ("get_weather", _ROME))),
)


def openai_tools() -> list[dict[str, Any]]:
    return [tool.as_function() for tool in TOOLS]


def openai_turn(reply: Reply, *, as_text: bool, null_content: bool = False) -> dict[str, Any]:
    """The assistant message as a template or a library expects it."""
    calls: list[dict[str, Any]] = []
    for call in reply.calls:
        arguments = call.function.arguments if as_text else call.arguments
        function = {"name": call.name, "arguments": arguments}
        calls.append({"id": call.id, "type": "function", "function": function})
    content = reply.text or (None if null_content else "")
    return {"role": "assistant", "content": content, "tool_calls": calls}


def openai_results(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "name": call.name, "tool_call_id": call.id, "content": f"answer {number}"}
        for number, call in enumerate(reply.calls)
    ]
