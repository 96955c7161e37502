"""GigaChat 3: one JSON object behind <|function_call|>, or behind a message header in the older template."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, calls, free, turn

GIGACHAT31 = Format(
    name="gigachat31",
    about="GigaChat 3.1",
    markers=("<|function_call|>", "<|role_sep|>"),
    reply=turn(free(), calls(JSON_CALL, open="<|function_call|>", max_calls=1)),
    result=results(BODY, role="function result"),
    tokens=("<|function_call|>",),
    stops=("<|message_sep|>",),
    beats=("gigachat3",),
)
GIGACHAT3 = replace(
    GIGACHAT31,
    name="gigachat3",
    about="GigaChat 3",
    markers=("function call", "<|role_sep|>", "<|message_sep|>"),
    reply=turn(free(), calls(JSON_CALL, open="<|message_sep|>\n\nfunction call<|role_sep|>\n", max_calls=1)),
    tokens=("<|message_sep|>", "<|role_sep|>"),
    beats=(),
)
FORMATS = (GIGACHAT31, GIGACHAT3)

EXAMPLES = (
    Example(
        "gigachat31",
        'ok<|function_call|>{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}',
        Reply.of("ok", PARIS),
    ),
    Example(
        "gigachat3",
        "ok<|message_sep|>\n\nfunction call<|role_sep|>\n"
        '{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}',
        Reply.of("ok", PARIS),
    ),
)
