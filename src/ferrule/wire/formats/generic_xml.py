"""Generic XML: for models with no format of their own. The arguments are JSON, so that any value can be written."""

from __future__ import annotations

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import ARGS, BODY, NAME, THINK_TAGS, calls, closer, free, seq, space, turn

FORMAT = Format(
    name="generic_xml",
    about="Llama 3.0, CodeLlama, SmolLM2 and every model whose template has no tools",
    markers=(),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(
                "<tool_call>",
                space("\n"),
                "<name>",
                NAME,
                "</name>",
                space("\n"),
                "<arguments>",
                ARGS,
                space(),
                closer("</arguments>"),
                space("\n"),
                closer("</tool_call>"),
            ),
            sep="\n",
            glue="\n",
        ),
    ),
    result=results("<tool_response>\n", BODY, "\n</tool_response>", role="user"),
)
FORMATS = (FORMAT,)

EXAMPLES = (
    Example(
        "generic_xml",
        "Let me look.\n<tool_call>\n<name>get_weather</name>\n"
        '<arguments>{"city": "Paris", "days": 2}</arguments>\n</tool_call>\n'
        '<tool_call>\n<name>get_weather</name>\n<arguments>{"city": "Rome"}</arguments>\n</tool_call>',
        Reply.of("Let me look.", PARIS, ROME),
    ),
)
