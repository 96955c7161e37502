"""Hermes: JSON in <tool_call> tags. Hermes 2-4, Qwen 2.5 and 3 (not Coder), Granite 4.0 and 4.1, many fine-tunes."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import (
    BODY,
    NAME,
    THINK_TAGS,
    Calls,
    Entry,
    Envelope,
    Slot,
    calls,
    closer,
    envelope,
    free,
    lit,
    seq,
    space,
    think,
    turn,
)

JSON_CALL = envelope(
    Entry("name", NAME, also=("tool_name", "function")),
    Entry("arguments", Slot.ARGUMENTS, also=("parameters", "args", "input")),
)


def calls_in_tags(
    tag: str, *, call: Envelope = JSON_CALL, sep: str = "\n", glue: str = "\n", inside: str = "\n"
) -> Calls:
    """Calls as JSON, one per pair of tags."""
    return calls(
        seq(f"<{tag}>", space(inside), call, space(inside), closer(f"</{tag}>")), sep=sep, glue=lit(glue, "\n")
    )


# SmolLM2's own recipe writes several calls as an array inside the tag.
ARRAY = calls(
    JSON_CALL, open=lit("<tool_call>[", "<tool_call>\n["), sep=", ", close=lit("]</tool_call>", "]\n</tool_call>", "]")
)
HERMES = Format(
    name="hermes",
    about="Hermes 2-4, Qwen 2.5 and 3, QwQ, MiMo-VL, Bielik",
    markers=("<tool_call>", '"arguments"'),
    reply=turn(THINK_TAGS, free(), calls_in_tags("tool_call"), also=(ARRAY,)),
    result=results("<tool_response>\n", BODY, "\n</tool_response>", role="user"),
    tokens=("<tool_call>", "</tool_call>", "<think>", "</think>"),
    stops=("<|im_end|>",),
    beats=("hermes_strict",),
)
STRICT = replace(
    HERMES,
    name="hermes_strict",
    about="Hermes with its newlines demanded, as engines that match them literally do",
    reply=turn(
        THINK_TAGS,
        free(),
        calls(seq("<tool_call>\n", JSON_CALL, "\n</tool_call>"), sep="\n", glue="\n", is_loose=False),
    ),
    beats=(),
)
JOINED = replace(
    HERMES,
    name="hermes_joined",
    about="Reka-Edge: the blocks follow each other without a newline",
    markers=("<tool_call>", '"arguments"', "<sep>"),
    reply=turn(THINK_TAGS, free(), calls_in_tags("tool_call", sep="")),
    result=results("<tool_response>\n", BODY, "\n</tool_response>", sep="", role="human"),
    beats=("hermes",),
)
EXAONE = replace(
    HERMES,
    name="exaone",
    about="EXAONE 4: no newlines inside the tags",
    markers=("<tool_call>", "[|endofturn|]"),
    reply=turn(THINK_TAGS, free(), calls_in_tags("tool_call", inside="")),
    beats=("hermes",),
)
GRANITE4 = replace(
    HERMES,
    name="granite4",
    about="Granite 4.0 and 4.1: as their templates write it; keys without quotes are read as well",
    markers=("<tool_call>", '"arguments"', "<|start_of_role|>"),
    reply=turn(
        THINK_TAGS, free(), calls_in_tags("tool_call", call=replace(JSON_CALL, reads_bare_keys=True)), also=(ARRAY,)
    ),
    stops=("<|end_of_text|>",),
    beats=("hermes",),
)
LONGCAT = replace(
    HERMES,
    name="longcat",
    about="LongCat-Flash",
    markers=("<longcat_tool_call>",),
    reply=turn(
        think(lit("<longcat_think>\n", "<longcat_think>"), lit("\n</longcat_think>\n", "</longcat_think>")),
        free(),
        calls_in_tags("longcat_tool_call"),
    ),
    tokens=("<longcat_tool_call>", "</longcat_tool_call>"),
    beats=(),
)
FORMATS = (HERMES, STRICT, JOINED, EXAONE, GRANITE4, LONGCAT)

EXAMPLES = (
    Example(
        "hermes",
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>',
        Reply.of(PARIS),
    ),
    Example(
        "hermes",
        "<think>\nwhere?\n</think>\n\nLet me look.\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
        Reply.of(Reasoning("where?"), "Let me look.", PARIS, ROME),
    ),
    Example(
        "hermes", '<tool_call>{"arguments":{"city":"Rome"},"name":"get_weather"}</tool_call>', Reply.of(ROME), False
    ),
    Example(
        "hermes",
        '<tool_call>\n{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}\n</tool_call>',
        Reply.of(ROME),
        False,
    ),
    Example(
        "hermes",
        '<think>I call <tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>',
        Reply.of(Reasoning("I call "), ROME),
        False,
    ),
    Example(
        "hermes",
        '<tool_call>[{"name": "get_weather", "arguments": {"city": "Rome"}}]</tool_call>',
        Reply.of(ROME),
        False,
    ),
    Example(
        "granite4",
        '<tool_call>\n{name: "get_weather", arguments: {city: "Rome"}}\n</tool_call>',
        Reply.of(ROME),
        False,
    ),
    Example(
        "longcat",
        '<longcat_tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</longcat_tool_call>',
        Reply.of(ROME),
    ),
)
