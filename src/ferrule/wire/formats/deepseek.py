"""DeepSeek V3, R1 and V3.1: JSON between <｜tool▁call...｜> tokens."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import ARGS, BODY, NAME, THINK_TAGS, calls, closer, free, lit, seq, think, turn

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL_BEGIN, CALL_END, SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"

V3 = Format(
    name="deepseek_v3",
    about="DeepSeek V3 and V3-0324, R1, R1 distilled to Qwen",
    markers=(BEGIN, "```json"),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(
                f"{CALL_BEGIN}function{SEP}",
                NAME,
                lit("\n```json\n", "\n```json", "```json\n", "\n"),
                ARGS,
                closer(f"\n```{CALL_END}", f"```{CALL_END}", CALL_END),
            ),
            open=BEGIN,
            sep="\n",
            close=END,
        ),
    ),
    result=results(
        "<｜tool▁output▁begin｜>",
        BODY,
        "<｜tool▁output▁end｜>",
        open="<｜tool▁outputs▁begin｜>",
        close="<｜tool▁outputs▁end｜>",
    ),
    tokens=(BEGIN, END, CALL_BEGIN, CALL_END, SEP),
    stops=("<｜end▁of▁sentence｜>",),
    beats=("deepseek_v31",),
)
V31 = replace(
    V3,
    name="deepseek_v31",
    about="DeepSeek V3.1 and V3.1-Terminus",
    markers=(BEGIN, SEP),
    reply=turn(
        think("<think>", "</think>"),
        free(),
        calls(seq(CALL_BEGIN, NAME, SEP, ARGS, closer(CALL_END)), open=BEGIN, close=END),
    ),
    result=results("<｜tool▁output▁begin｜>", BODY, "<｜tool▁output▁end｜>", sep=""),
    beats=(),
)
FORMATS = (V3, V31)

EXAMPLES = (
    Example(
        "deepseek_v3",
        f'{BEGIN}{CALL_BEGIN}function{SEP}get_weather\n```json\n{{"city": "Paris", "days": 2}}\n```{CALL_END}\n'
        f'{CALL_BEGIN}function{SEP}get_weather\n```json\n{{"city": "Rome"}}\n```{CALL_END}{END}',
        Reply.of(PARIS, ROME),
    ),
    Example(
        "deepseek_v31",
        f'<think>where?</think>ok{BEGIN}{CALL_BEGIN}get_weather{SEP}{{"city": "Paris", "days": 2}}{CALL_END}'
        f'{CALL_BEGIN}get_weather{SEP}{{"city": "Rome"}}{CALL_END}{END}',
        Reply.of(Reasoning("where?"), "ok", PARIS, ROME),
    ),
)
