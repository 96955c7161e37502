"""Granite 3: a JSON array behind a marker, without a closer. Granite 20B: one marked object after another."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, THINK_TAGS, calls, free, lit, seq, space, turn

GRANITE3 = Format(
    name="granite3",
    about="Granite 3.0 and 3.3",
    markers=("<|tool_call|>", "<|start_of_role|>"),
    reply=turn(
        THINK_TAGS, free(), calls(JSON_CALL, open=lit("<|tool_call|>[", "<|tool_call|> ["), sep=", ", close="]")
    ),
    result=results(BODY, role="tool"),
    declaration=Declaration(open="[", close="]", sep=", "),
    tokens=("<|tool_call|>",),
    stops=("<|end_of_text|>",),
)
GRANITE31 = replace(
    GRANITE3,
    name="granite31",
    about="Granite 3.1 and 3.2: the marker is ordinary text",
    markers=("<tool_call>[", "<|start_of_role|>"),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(JSON_CALL, open=lit("<tool_call>[", "<tool_call> ["), sep=", ", close=lit("]", "]</tool_call>")),
    ),
    result=results(BODY, role="tool_response"),
    tokens=(),
)
GRANITE20B = replace(
    GRANITE3,
    name="granite20b",
    about="Granite 20B function calling",
    markers=("<function_call>",),
    reply=turn(free(), calls(seq("<function_call>", space(" "), JSON_CALL), sep="\n", glue="\n")),
    result=results("<function_response> ", BODY, role="user"),
    tokens=(),
    stops=("<|endoftext|>",),
)
FORMATS = (GRANITE3, GRANITE31, GRANITE20B)

EXAMPLES = (
    Example(
        "granite3",
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, '
        '{"name": "get_weather", "arguments": {"city": "Rome"}}]',
        Reply.of(PARIS, ROME),
    ),
    Example(
        "granite31",
        '<tool_call>[{"name": "get_weather", "arguments": {"city": "Rome"}}]</tool_call>',
        Reply.of(ROME),
        False,
    ),
    Example(
        "granite20b",
        '<function_call> {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n'
        '<function_call> {"name": "get_weather", "arguments": {"city": "Rome"}}',
        Reply.of(PARIS, ROME),
    ),
)
