"""Mistral: [TOOL_CALLS], an array with ids (v2 to v7) or one marked call after another (v11, v13)."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.call import ToolCall
from ferrule.core.ids import NINE_ALNUM
from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, results
from ferrule.wire.node import (
    ARGS,
    BODY,
    ID,
    NAME,
    Body,
    Entry,
    Slot,
    calls,
    envelope,
    free,
    lit,
    seq,
    think,
    turn,
)

THINK = think("[THINK]", "[/THINK]")
ARRAY = calls(
    envelope(Entry("name", NAME), Entry("arguments", Slot.ARGUMENTS, also=("parameters",)), Entry("id", ID)),
    open=lit("[TOOL_CALLS][", "[TOOL_CALLS] ["),
    sep=", ",
    close="]",
)
WITH_ID = calls(seq("[TOOL_CALLS]", NAME, "[CALL_ID]", ID, "[ARGS]", ARGS))
WITHOUT_ID = calls(seq("[TOOL_CALLS]", NAME, "[ARGS]", ARGS))

V3 = Format(
    name="mistral_v3",
    about="Mistral 7B v0.3, Nemo, Mixtral 8x22B, Large 2407",
    markers=("[TOOL_CALLS]", "[AVAILABLE_TOOLS]"),
    reply=turn(free(), ARRAY, also=(WITH_ID, WITHOUT_ID)),
    result=results('[TOOL_RESULTS]{"content": ', Body(as_json=True), ', "call_id": "', ID, '"}[/TOOL_RESULTS]', sep=""),
    declaration=Declaration(open="[AVAILABLE_TOOLS][", close="][/AVAILABLE_TOOLS]", sep=", "),
    ids=NINE_ALNUM,
    tokens=("[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    stops=("</s>",),
)
V7 = replace(
    V3,
    name="mistral_v7",
    about="Mistral Large 2411, Small 3 and 3.1, Pixtral Large",
    markers=("[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[TOOL_CONTENT]"),
    result=results("[TOOL_RESULTS]", ID, "[TOOL_CONTENT]", BODY, "[/TOOL_RESULTS]", sep=""),
    tokens=(*V3.tokens, "[TOOL_CONTENT]"),
    beats=("mistral_v3",),
)
V11 = replace(
    V7,
    name="mistral_v11",
    about="Mistral Small 3.2, Magistral 2507",
    markers=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
    reply=turn(
        think(lit("<think>\n", "<think>"), lit("\n</think>\n", "</think>")), free(), WITH_ID, also=(WITHOUT_ID, ARRAY)
    ),
    tokens=(*V7.tokens, "[CALL_ID]", "[ARGS]"),
    beats=("mistral_v3", "mistral_v7", "mistral_v13"),
)
V13 = replace(
    V7,
    name="mistral_v13",
    about="Ministral 3, Mistral Large 3, Magistral 2509 and later, Devstral",
    markers=("[TOOL_CALLS]", "[ARGS]"),
    reply=turn(THINK, free(), WITHOUT_ID, also=(WITH_ID, ARRAY)),
    result=results("[TOOL_RESULTS]", BODY, "[/TOOL_RESULTS]", sep=""),
    tokens=(*V7.tokens, "[ARGS]", "[THINK]", "[/THINK]"),
    beats=("mistral_v3", "mistral_v7"),
)
FORMATS = (V3, V7, V11, V13)

_PARIS = ToolCall("abcdefg00", PARIS.function)
_ROME = ToolCall("abcdefg01", ROME.function)
EXAMPLES = (
    Example(
        "mistral_v3",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}, "id": "abcdefg00"}, '
        '{"name": "get_weather", "arguments": {"city": "Rome"}, "id": "abcdefg01"}]',
        Reply.of(_PARIS, _ROME),
    ),
    Example(
        "mistral_v3",
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Rome"}, "id": "abcdefg01"}]</s>',
        Reply.of(_ROME),
        False,
    ),
    Example(
        "mistral_v11",
        '[TOOL_CALLS]get_weather[CALL_ID]abcdefg00[ARGS]{"city": "Paris", "days": 2}'
        '[TOOL_CALLS]get_weather[CALL_ID]abcdefg01[ARGS]{"city": "Rome"}',
        Reply.of(_PARIS, _ROME),
    ),
    Example(
        "mistral_v13",
        '[THINK]where?[/THINK]Let me look.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 2}'
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome"}',
        Reply.of(Reasoning("where?"), "Let me look.", PARIS, ROME),
    ),
)
