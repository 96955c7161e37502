"""MiniCPM5: <function name="..."> elements without a wrapper; values with markup in them go into CDATA."""

from __future__ import annotations

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import BODY, KEY, NAME, THINK_TAGS, VALUE, calls, fields, free, lit, seq, turn

FORMAT = Format(
    name="minicpm5",
    about="MiniCPM5",
    markers=('<function name="', '<param name="'),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(
                lit('<function name="', '<functionname="'),
                NAME,
                '">',
                fields(
                    seq(lit('<param name="', '<paramname="'), KEY, '">', VALUE, "</param>"),
                    quote=("<![CDATA[", "]]>"),
                    quote_when="<&\n",
                    python_literals=True,
                ),
                "</function>",
            ),
            sep="\n",
            glue="\n",
        ),
    ),
    result=results("<tool_response>\n", BODY, "\n</tool_response>", role="user"),
    stops=("<|im_end|>",),
)
FORMATS = (FORMAT,)

EXAMPLES = (
    Example(
        "minicpm5",
        '<function name="get_weather"><param name="city">Paris</param><param name="days">2</param></function>\n'
        '<function name="get_weather"><param name="city">Rome</param></function>',
        Reply.of(PARIS, ROME),
    ),
    Example(
        "minicpm5",
        '<function name="get_weather"><param name="city"><![CDATA[a<b]]></param></function>',
        Reply.of(ToolCall.of("get_weather", {"city": "a<b"})),
    ),
)
