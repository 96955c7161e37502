"""The model and the tools of a storm. What a conversation does is a function of its name, in every process."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ferrule import ChatMessage, Engine, Reply, Role, ToolCall, ToolCallRequest, tool
from ferrule.core.reply import events_of
from ferrule.engines.engine import ALL_CHOICES, Traits
from ferrule.events import Event
from ferrule.gateway import ApprovalRule
from ferrule.run.approval_policy import ApprovalPolicy
from ferrule.sources import CallContext, Functions

LOOK, NOTE, PAY = "look", "note", "pay"
ANSWER: Final = "All done: "
RESPONSE_PREFIX: Final = "r"
"""Tasks of the gateways begin with it. They have no call that needs approval."""
MAX_ROUNDS: Final = 4
_PAUSE: Final = 0.004
_EFFECT_PAUSE: Final = 0.08
_DENIED_SHARE: Final = 0.25

UNAPPROVED: Final = ApprovalRule(name="notes", tools=(NOTE,), approvers=0)
POLICY: Final = ApprovalPolicy((UNAPPROVED,))


@cache
def rounds_of(task: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return the calls of each round of a task: the tool, and the item that it is called with."""
    chance = random.Random(task)
    tools = (LOOK, NOTE) if task.startswith(RESPONSE_PREFIX) else (LOOK, NOTE, PAY)
    return tuple(
        tuple((chance.choice(tools), f"{task}.{number}.{index}") for index in range(chance.choice((1, 1, 2, 3))))
        for number in range(chance.randint(1, MAX_ROUNDS - 1))
    )


def is_denied(item: str) -> bool:
    """Whether the approver denies the payment. A function of the item, so that a killed approver decides the same."""
    return random.Random(f"decision on {item}").random() < _DENIED_SHARE


def answer_of(task: str) -> str:
    return f"{ANSWER}{task}"


class ScriptedEngine(Engine):
    """Makes the calls of the task that the last user message names, round by round, and then answers."""

    traits = Traits(name="script", honours=ALL_CHOICES)

    def __init__(self, pause: float = _PAUSE) -> None:
        self._pause = pause

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        task, number = _place(request.messages)
        rounds = rounds_of(task)
        reply = Reply.of(answer_of(task))
        if number < len(rounds):
            calls = [
                ToolCall.of(name, {"item": item}, id=f"k{index}") for index, (name, item) in enumerate(rounds[number])
            ]
            reply = Reply.of(f"Round {number}. ", *calls)
        for event in events_of(reply):
            await asyncio.sleep(self._pause)
            yield event

    async def close(self) -> None:
        return


def _place(messages: Sequence[ChatMessage]) -> tuple[str, int]:
    """Return the task under way, and how many of its rounds are over."""
    start = max(index for index, message in enumerate(messages) if message.role is Role.USER)
    return messages[start].content, sum(bool(message.tool_calls) for message in messages[start:])


@dataclass(frozen=True, slots=True)
class Effect:
    """A line of the file of effects."""

    tool: str
    key: str
    item: str
    pid: int


def read_effects(path: Path) -> list[Effect]:
    lines = (line.split(" ") for line in path.read_text(encoding="utf-8").splitlines())
    return [Effect(tool, key, item, int(pid)) for tool, key, item, pid in lines]


def append_line(path: Path, line: str) -> None:
    """Append a line in one write, so that lines of several processes do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def storm_tools(effects: Path) -> Functions:
    """Return the tools: one that reads, and two whose effects are lines of a file."""

    async def leave_line(name: str, item: str, context: CallContext) -> None:
        # Long beside everything else, so that many kills hit a call that is started.
        await asyncio.sleep(random.uniform(0, _EFFECT_PAUSE))
        append_line(effects, f"{name} {context.call_id} {item} {os.getpid()}")
        await asyncio.sleep(random.uniform(0, _EFFECT_PAUSE))

    @tool(bound_to=("storm.look", "1.0"))
    async def look(item: str) -> str:
        """Read something."""
        await asyncio.sleep(_PAUSE)
        return f"seen {item}"

    @tool(side_effects=True, bound_to=("storm.note", "1.0"))
    async def note(item: str, context: CallContext) -> str:
        """Write something down."""
        await leave_line(NOTE, item, context)
        return f"noted {item}"

    @tool(side_effects=True, bound_to=("storm.pay", "1.0"))
    async def pay(item: str, context: CallContext) -> str:
        """Pay something."""
        await leave_line(PAY, item, context)
        return f"paid {item}"

    return Functions([look, note, pay], id="storm")


def result_of(name: str, item: str) -> str:
    """Return the result of a call that was made and ended."""
    return {LOOK: "seen", NOTE: "noted", PAY: "paid"}[name] + f" {item}"


def now() -> float:
    return time.time()
