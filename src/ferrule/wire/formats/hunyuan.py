"""Hunyuan A13B: a JSON array between <tool_calls> tags. Apriel adds ids, Jamba breaks lines."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, ID, NAME, THINK_TAGS, CallNode, Calls, Entry, Slot, calls, envelope, free, lit, turn


def array(call: CallNode, *, indent: str = "", glue: str | None = None, lead: str = "") -> Calls:
    """A JSON array of calls. `indent` is written before every call, `lead` before the section."""
    begin, tail = f"<tool_calls>[{indent}", indent.rstrip(" ")
    return calls(
        call,
        open=lit(lead + begin, begin, "<tool_calls>[", "<tool_calls>\n["),
        sep=lit(f",{indent}" if indent else ", ", ","),
        close=lit(f"{tail}]</tool_calls>", "]</tool_calls>", "]\n</tool_calls>", "]"),
        glue=glue,
    )


HUNYUAN = Format(
    name="hunyuan",
    about="Hunyuan A13B",
    markers=("<tool_calls>", "<answer>"),
    reply=turn(THINK_TAGS, free(), array(JSON_CALL)),
    result=results("<tool_response>", BODY, "</tool_response>", role="user"),
)
APRIEL = replace(
    HUNYUAN,
    name="apriel",
    about="Apriel 1.5 and 1.6",
    markers=("<tool_calls>[", '"id"'),
    reply=turn(
        THINK_TAGS,
        free(),
        array(
            envelope(Entry("name", NAME), Entry("arguments", Slot.ARGUMENTS, also=("parameters",)), Entry("id", ID)),
            lead="\n",
        ),
    ),
    result=results(BODY, role="tool"),
    stops=("<|end|>",),
    beats=("hermes",),
)
JAMBA = replace(
    HUNYUAN,
    name="jamba",
    about="Jamba 1.5 and later: one call to a line",
    markers=("<tool_calls>[", "<|bom|>"),
    reply=turn(free(), array(JSON_CALL, indent="\n    ")),
    result=results(BODY, role="tool"),
    stops=("<|eom|>",),
)
FORMATS = (HUNYUAN, APRIEL, JAMBA)

EXAMPLES = (
    Example(
        "hunyuan",
        '<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, '
        '{"name": "get_weather", "arguments": {"city": "Rome"}}]</tool_calls>',
        Reply.of(PARIS, ROME),
    ),
    Example(
        "apriel",
        'ok\n<tool_calls>[{"name": "get_weather", "arguments": {"city": "Rome"}, "id": "abcdefg01"}]</tool_calls>',
        Reply.of("ok", ToolCall("abcdefg01", ROME.function)),
    ),
    Example(
        "jamba",
        '<tool_calls>[\n    {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}},\n'
        '    {"name": "get_weather", "arguments": {"city": "Rome"}}\n]</tool_calls>',
        Reply.of(PARIS, ROME),
    ),
)
