"""Harmony: gpt-oss. Every part is a message with a header; a call is a message to `functions.NAME`."""

from __future__ import annotations

from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import ARGS, BODY, NAME, calls, closer, free, lit, seq, think, turn

START = "<|start|>assistant"
CALLED = closer("<|call|>", "<|end|>")
TO_CHANNEL = calls(
    seq(
        "<|channel|>commentary to=functions.",
        NAME,
        lit(" <|constrain|>json<|message|>", "<|constrain|>json<|message|>", " json<|message|>", "<|message|>"),
        ARGS,
        CALLED,
    )
)
# The spelling of the Hugging Face template: the recipient before the channel.
TO_ROLE = calls(
    seq(
        lit(f"{START} to=functions.", " to=functions."),
        NAME,
        lit(
            "<|channel|>commentary json<|message|>",
            "<|channel|>commentary <|constrain|>json<|message|>",
            "<|channel|>commentary<|message|>",
        ),
        ARGS,
        CALLED,
    )
)

FORMAT = Format(
    name="harmony",
    about="gpt-oss 20B and 120B",
    markers=("<|start|>assistant", "<|channel|>commentary"),
    reply=turn(
        think("<|channel|>analysis<|message|>", "<|end|>", calls_inside=False),
        free("<|channel|>commentary<|message|>", "<|end|>"),
        TO_CHANNEL,
        free("<|channel|>final<|message|>", lit("<|return|>", "<|end|>")),
        also=(TO_ROLE,),
        between=START,
        is_ordered=False,
    ),
    result=results(
        "<|start|>functions.", NAME, "<|channel|>commentary to=assistant<|message|>", BODY, "<|end|>", sep=""
    ),
    tokens=("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"),
    stops=("<|return|>", "<|call|>"),
)
FORMATS = (FORMAT,)

EXAMPLES = (
    Example(
        "harmony",
        f"<|channel|>analysis<|message|>where?<|end|>{START}<|channel|>commentary to=functions.get_weather "
        '<|constrain|>json<|message|>{"city": "Paris", "days": 2}<|call|>',
        Reply.of(Reasoning("where?"), PARIS),
    ),
    Example(
        "harmony",
        f"<|channel|>analysis<|message|>where?<|end|>{START}<|channel|>final<|message|>Paris.<|return|>",
        Reply.of(Reasoning("where?"), "Paris."),
    ),
    Example(
        "harmony",
        f'{START} to=functions.get_weather<|channel|>commentary json<|message|>{{"city": "Rome"}}<|call|>',
        Reply.of(ROME),
        False,
    ),
)
