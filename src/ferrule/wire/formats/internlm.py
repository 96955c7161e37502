"""InternLM 2.5 and Intern-S1: one JSON object between <|action_start|> and <|action_end|>."""

from __future__ import annotations

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.formats.llama3 import PARAMETERS_CALL
from ferrule.wire.node import BODY, THINK_TAGS, calls, closer, free, lit, seq, turn

FORMAT = Format(
    name="internlm",
    about="InternLM 2.5, Intern-S1",
    markers=("<|action_start|>", "<|plugin|>"),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(
                lit("<|action_start|> <|plugin|>\n", "<|action_start|><|plugin|>\n", "<|action_start|> <|plugin|>"),
                PARAMETERS_CALL,
                closer("<|action_end|>", "\n<|action_end|>"),
            )
        ),
    ),
    result=results(BODY, role="environment"),
    tokens=("<|action_start|>", "<|action_end|>", "<|plugin|>"),
    stops=("<|im_end|>",),
)
FORMATS = (FORMAT,)

EXAMPLES = (
    Example(
        "internlm",
        "ok<|action_start|> <|plugin|>\n"
        '{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}<|action_end|>'
        '<|action_start|> <|plugin|>\n{"name": "get_weather", "parameters": {"city": "Rome"}}<|action_end|>',
        Reply.of("ok", PARIS, ROME),
    ),
)
