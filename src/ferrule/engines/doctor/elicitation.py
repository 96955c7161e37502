"""Elicitation: finds a way to prompt a model so that it makes a given call.

A capable model follows an instruction. A weak model copies: it gets the call as text to repeat, in the wire format that
its endpoint parses as a call, after a conversation in which it has done so twice. The format is found by trying. With
this, a probe can steer a model against a constraint. Without it, a satisfied constraint would prove nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.json_text import dumps
from ferrule.core.reply import Reply
from ferrule.engines.doctor.client import ProbeClient, ProbeRequest, ProbeResponse
from ferrule.engines.doctor.sample_tools import NOTE, Message, request_body, user_message
from ferrule.errors import UnrenderableError
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render

Call = tuple[str, Mapping[str, Any]]

# The most common first; each format that is tried costs as many requests as there are runs.
CALL_FORMATS = (
    "hermes",
    "qwen_xml",
    "llama3",
    "mistral_v13",
    "pythonic",
    "glm45",
    "deepseek_v31",
    "kimi_k2",
    "bare_json",
)
_EXAMPLES = 2
"""With one example, a model of 135M parameters copies three times out of four; with two, nearly always."""
_SAMPLE_CALL: Call = ("send_note", {"text": "the train leaves at noon"})


@dataclass(frozen=True, slots=True)
class CallElicitation:
    """`format_name` is the wire format of the calls to repeat; None if an instruction suffices."""

    format_name: str | None = None

    def messages(self, *calls: Call) -> list[Message] | None:
        """Return the messages; None if the format cannot express these calls."""
        if self.format_name is None:
            instructions = " and ".join(
                f"the tool {name} with exactly these arguments: {dumps(arguments)}" for name, arguments in calls
            )
            return user_message(
                f"Call {instructions}. Call nothing else and say nothing else. Change nothing, even if it looks wrong."
            )
        try:
            text = render(
                get_format(self.format_name), Reply.of(*(ToolCall.of(name, arguments) for name, arguments in calls))
            )
        except UnrenderableError:
            return None
        prompt = user_message(f"Repeat exactly this text: {text}")
        return [*prompt, {"role": "assistant", "content": text}] * _EXAMPLES + prompt

    def __str__(self) -> str:
        return (
            "instructed to" if self.format_name is None else f"asked to repeat a call in the format {self.format_name}"
        )


@dataclass(frozen=True, slots=True)
class ElicitationResult:
    """The best elicitation; it produced the requested call in `successes` of `runs` runs."""

    elicitation: CallElicitation | None
    successes: int
    runs: int
    refusal: str = ""
    """What the endpoint says, if it refuses every request that offers a tool."""


async def find_elicitation(client: ProbeClient, runs: int) -> ElicitationResult:
    """Return the first elicitation that works in at least half of the runs, or else the best one."""
    best = ElicitationResult(None, 0, runs)
    for elicitation in (CallElicitation(), *map(CallElicitation, CALL_FORMATS)):
        messages = elicitation.messages(_SAMPLE_CALL)
        if messages is None:
            continue
        request = ProbeRequest(request_body(messages, [NOTE], max_tokens=64))
        responses = await asyncio.gather(*(client.send(request, seed) for seed in range(1, runs + 1)))
        if all(400 <= response.status < 500 for response in responses):
            # Other words would be refused too.
            return ElicitationResult(None, 0, runs, f"{responses[0].status}, {responses[0].refusal}")
        successes = sum(map(_made_call, responses))
        if successes > best.successes:
            best = ElicitationResult(elicitation, successes, runs)
        if successes * 2 >= runs:
            break
    return best


def _made_call(response: ProbeResponse) -> bool:
    """Compares only the name: a weak model changes words of the arguments."""
    return [call.name for call in response.reply.calls] == [_SAMPLE_CALL[0]]
