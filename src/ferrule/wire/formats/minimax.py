"""MiniMax M2: <invoke> elements in a section, values inline and verbatim. M1: JSON lines in a section."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, KEY, NAME, THINK_TAGS, VALUE, calls, fields, free, lit, seq, space, turn

M2 = Format(
    name="minimax_m2",
    about="MiniMax M2, M2.1 and M2.5",
    markers=("<minimax:tool_call>", "<invoke name="),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(
                lit('<invoke name="', "<invoke name='", "<invoke name="),
                NAME,
                lit('">', "'>", ">"),
                space("\n"),
                fields(
                    seq(
                        lit('<parameter name="', "<parameter name='", "<parameter name="),
                        KEY,
                        lit('">', "'>", ">"),
                        VALUE,
                        "</parameter>",
                        space("\n"),
                    )
                ),
                "</invoke>",
            ),
            open=lit("\n<minimax:tool_call>\n", "<minimax:tool_call>\n", "<minimax:tool_call>"),
            sep="\n",
            close=lit("\n</minimax:tool_call>", "</minimax:tool_call>"),
        ),
    ),
    result=results("<response>", BODY, "</response>"),
    tokens=("<minimax:tool_call>", "</minimax:tool_call>", "<think>", "</think>"),
    stops=("[e~[",),
)
M1 = replace(
    M2,
    name="minimax_m1",
    about="MiniMax M1: one JSON call to a line",
    markers=("<tool_calls>", "<beginning_of_sentence>ai"),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            JSON_CALL,
            open=lit("<tool_calls>\n", "<tool_calls>"),
            sep="\n",
            close=lit("\n</tool_calls>", "</tool_calls>"),
            glue="\n",
        ),
    ),
    result=results("tool result: ", BODY, "\n\n"),
    tokens=(),
    stops=("<end_of_sentence>",),
)
FORMATS = (M2, M1)

EXAMPLES = (
    Example(
        "minimax_m2",
        'ok\n<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="get_weather">\n'
        '<parameter name="city">Rome</parameter>\n</invoke>\n</minimax:tool_call>',
        Reply.of("ok", PARIS, ROME),
    ),
    Example(
        "minimax_m2",
        "<minimax:tool_call><invoke name=get_weather><parameter name='city'>Rome</parameter></invoke>"
        "</minimax:tool_call>",
        Reply.of(ROME),
        False,
    ),
    Example(
        "minimax_m1",
        '<tool_calls>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n'
        '{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_calls>',
        Reply.of(PARIS, ROME),
    ),
)
