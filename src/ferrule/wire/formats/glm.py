"""GLM: the name after the tag, then a key and a value element for each argument, strings raw."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import (
    BODY,
    KEY,
    NAME,
    THINK_TAGS,
    VALUE,
    Calls,
    calls,
    fields,
    free,
    lit,
    seq,
    space,
    think,
    turn,
)


def pairs(newline: str, *, lead: str = "", between: str | None = None, sep: str = "", glue: str = "") -> Calls:
    """Calls as key and value elements: `newline` between pieces, `between` after a value, `lead` before a call."""
    argument = seq(
        "<arg_key>", KEY, "</arg_key>", space(newline), "<arg_value>", VALUE, "</arg_value>",
        space(newline if between is None else between),
    )  # fmt: skip
    begin = lit(f"{lead}<tool_call>", "<tool_call>") if lead else lit("<tool_call>")
    tail = () if between is None else (space(newline),)
    return calls(
        seq(begin, NAME, space(newline), fields(argument), *tail, "</tool_call>"),
        sep=sep,
        glue=lit(glue) if glue else None,
    )


GLM45 = Format(
    name="glm45",
    about="GLM-4.5 and 4.6, Laguna XS",
    markers=("<arg_key>", "<arg_value>", "</arg_key>\n<arg_value>"),
    reply=turn(THINK_TAGS, free(), pairs("\n", lead="\n")),
    result=results("<tool_response>\n", BODY, "\n</tool_response>"),
    tokens=(
        "<tool_call>",
        "</tool_call>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "<think>",
        "</think>",
    ),
    stops=("<|observation|>", "<|user|>"),
    beats=("glm47",),
)
GLM47 = replace(
    GLM45,
    name="glm47",
    about="GLM-4.7, GLM-5, Laguna S, Spark 2.5: no newlines",
    markers=("<arg_key>", "<arg_value>"),
    reply=turn(think("<think>", "</think>"), free(), pairs("")),
    result=results("<tool_response>", BODY, "</tool_response>", sep=""),
    beats=(),
)
LING3 = replace(
    GLM45,
    name="ling3",
    about="Ling 3: newlines inside a pair, none between pairs",
    markers=("<arg_key>", "<arg_value>", "<role>ASSISTANT</role>"),
    reply=turn(
        think("<think>", "</think>"),
        free(),
        pairs("\n", between="", sep="\n", glue="\n"),
    ),
    beats=("glm45", "glm47"),
)
FORMATS = (GLM45, GLM47, LING3)

EXAMPLES = (
    Example(
        "glm45",
        "ok\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
        "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>",
        Reply.of("ok", PARIS, ROME),
    ),
    Example(
        "glm47",
        "<think>where?</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
        "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>",
        Reply.of(Reasoning("where?"), PARIS),
    ),
)
