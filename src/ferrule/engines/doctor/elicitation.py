"""Lever: a way of asking by which a model makes the very call that is wanted of it.

A capable model is asked in words. A weak one copies: it is given the call as text to repeat, in the spelling that its
endpoint reads as a call, after a conversation in which it has done so twice. Which spelling that is is found by trying.
So a model can be pulled against a demand; without a pull, that the demand is kept would show nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.json_text import dumps
from ferrule.core.reply import Reply
from ferrule.engines.doctor.client import Answer, Asker, Question
from ferrule.engines.doctor.sample_tools import NOTE, Said, body_of, user
from ferrule.errors import UnrenderableError
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render

Call = tuple[str, Mapping[str, Any]]

# The most common first; each try costs as many requests as there are runs.
SPELLINGS = ("hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "glm45", "deepseek_v31", "kimi_k2", "bare_json")
_SHOWN = 2
"""With one, a model of 135M parameters copies three times out of four; with two, nearly always."""
_TRIED: Call = ("send_note", {"text": "the train leaves at noon"})


@dataclass(frozen=True, slots=True)
class Lever:
    """`spelling` is the wire format in which calls are given to be repeated; None where words suffice."""

    spelling: str | None = None

    def said(self, *calls: Call) -> list[Said] | None:
        """The conversation; None where the format has no spelling for these calls."""
        if self.spelling is None:
            told = " and ".join(
                f"the tool {name} with exactly these arguments: {dumps(given)}" for name, given in calls
            )
            return user(f"Call {told}. Call nothing else and say nothing else. Change nothing, even if it looks wrong.")
        try:
            text = render(get_format(self.spelling), Reply.of(*(ToolCall.of(name, given) for name, given in calls)))
        except UnrenderableError:
            return None
        asked = user(f"Repeat exactly this text: {text}")
        return [*asked, {"role": "assistant", "content": text}] * _SHOWN + asked

    def __str__(self) -> str:
        return "asked in words" if self.spelling is None else f"asked to repeat a call in the format {self.spelling}"


@dataclass(frozen=True, slots=True)
class Found:
    """The best lever; `moved` of `tried` times it brought the call that was wanted."""

    lever: Lever | None
    moved: int
    tried: int


async def find_lever(asker: Asker, runs: int) -> Found:
    """The first that works at least every second time, or else the best of all."""
    best = Found(None, 0, runs)
    for lever in (Lever(), *map(Lever, SPELLINGS)):
        wanted = lever.said(_TRIED)
        if wanted is None:
            continue
        question = Question(body_of(wanted, [NOTE], max_tokens=64))
        answers = await asyncio.gather(*(asker.answer(question, seed) for seed in range(1, runs + 1)))
        moved = sum(map(_is_moved, answers))
        if moved > best.moved:
            best = Found(lever, moved, runs)
        if moved * 2 >= runs:
            break
    return best


def _is_moved(answer: Answer) -> bool:
    """Names count and arguments do not: a weak model changes a word here and there."""
    return [call.name for call in answer.reply.calls] == [_TRIED[0]]
