"""Qwen XML: one tag per parameter, strings raw. Qwen3-Coder, Qwen 3.5 and later, Nemotron-3; Step, Seed, MiMo."""

from __future__ import annotations

from dataclasses import replace

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
    closer,
    fields,
    free,
    lit,
    opener,
    seq,
    space,
    think,
    turn,
)


def xml(tag: str, own: str, *, sep: str = "\n", glue: str = "\n\n") -> Calls:
    """Calls between `tag`s; `own` is the white space inside a parameter that belongs to the markup.

    The templates print Python's True and None, and some of them whole Python literals, so models write them too.
    """
    value_open = lit(f">{own}", ">") if own else lit(">")
    value_close = lit(f"{own}</parameter>", "</parameter>") if own else lit("</parameter>")
    parameter = seq("<parameter=", KEY, value_open, VALUE, value_close, space("\n"))
    return calls(
        seq(
            opener(f"<{tag}>"),
            space("\n"),
            "<function=",
            NAME,
            ">",
            space("\n"),
            fields(parameter, python_literals=True),
            "</function>",
            space("\n"),
            closer(f"</{tag}>"),
        ),
        sep=sep,
        glue=lit(glue, "\n") if glue else None,
    )


QWEN_XML = Format(
    name="qwen_xml",
    about="Qwen3-Coder, Qwen 3.5 and later, Granite 4.2",
    markers=("<tool_call>", "<function=", "<parameter="),
    reply=turn(THINK_TAGS, free(), xml("tool_call", "\n")),
    result=results("<tool_response>\n", BODY, "\n</tool_response>", role="user"),
    tokens=("<tool_call>", "</tool_call>", "<think>", "</think>"),
    stops=("<|im_end|>",),
)
NEMOTRON = replace(
    QWEN_XML,
    name="nemotron3_xml",
    about="Nemotron-3: one newline between text and calls",
    markers=("<function=", "<parameter=", "</tool_call>\\n'"),
    reply=turn(
        think("<think>\n", lit("\n</think>\n", "</think>\n", "</think>")), free(), xml("tool_call", "\n", glue="\n")
    ),
    beats=("qwen_xml",),
)
STEP = replace(
    QWEN_XML,
    name="step_xml",
    about="Step-3.5 and 3.7: blocks and text follow each other without a newline",
    markers=("<tool_call>", "<function=", "<parameter=", "<|im_start|>tool_response"),
    reply=turn(
        think(lit("<think>\n", "<think>"), lit("\n</think>\n", "</think>\n", "</think>")),
        free(),
        xml("tool_call", "\n", sep="", glue=""),
    ),
    result=results("<tool_response>", BODY, "</tool_response>", sep="", role="tool_response"),
    beats=("qwen_xml",),
)
MIMO = replace(
    QWEN_XML,
    name="mimo_xml",
    about="MiMo-V2: values inline, white space in them is data",
    markers=("<tool_call>", "<function=", "<parameter=", "value_1</parameter>"),
    reply=turn(THINK_TAGS, free(), xml("tool_call", "", glue="\n")),
    beats=("qwen_xml",),
)
SEED = replace(
    QWEN_XML,
    name="seed_xml",
    about="Seed-OSS: values inline; its template prints Python for containers, which is read too",
    markers=("<seed:tool_call>", "<function=", "<parameter="),
    reply=turn(think("<seed:think>", "</seed:think>"), free(), xml("seed:tool_call", "")),
    result=results(BODY, role="tool"),
    tokens=("<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>"),
    stops=("<seed:eos>",),
)
FORMATS = (QWEN_XML, NEMOTRON, STEP, MIMO, SEED)

EXAMPLES = (
    Example(
        "qwen_xml",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
        "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
        Reply.of(PARIS),
    ),
    Example(
        "qwen_xml",
        "Let me look.\n\n<tool_call>\n<function=get_weather>\n"
        "<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>",
        Reply.of("Let me look.", ROME),
    ),
    Example(
        "qwen_xml",
        "<function=get_weather><parameter=city>Rome</parameter></parameter></function></tool_call>",
        Reply.of(ROME),
        False,
    ),
    Example(
        "seed_xml",
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n"
        "<parameter=days>2</parameter>\n</function>\n</seed:tool_call>",
        Reply.of(PARIS),
    ),
)
