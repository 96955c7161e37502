"""The conversations of the ledger's measurements: an engine that follows a script, tools that do nothing, an approver.

What a turn does is in its user message: "answer", "look 1" (a round with one reading call), "pay 3" (a round with three
effects), "rounds 5" (five rounds with one effect each), "hold" (the engine waits until `release`). It uses only what
every version of Ferrule has.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from ferrule import CallContext, ChatMessage, Decision, Engine, Reply, Role, ToolCall, ToolConversation, tool
from ferrule.core.context import Principal
from ferrule.core.reply import events_of
from ferrule.core.request import ToolCallRequest
from ferrule.engines import Traits
from ferrule.engines.engine import ALL_CHOICES
from ferrule.events import Event

TENANT: Final = "acme"
ANN: Final = CallContext(principal=Principal("ann", TENANT))
LEASE_SECONDS: Final = 10.0
ROUNDS: Final = 5
"""The effects of a turn of the script "rounds 5": one in each round, fewer than a loop's limit."""
_ANSWER: Final = "Your order has been paid and is on its way; it arrives on Tuesday."


class ScriptedEngine(Engine):
    """Does what the last user message says."""

    traits = Traits(name="scripted", honours=ALL_CHOICES)

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.waiting = 0
        self._numbers = itertools.count(1)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        script, done = _progress(request.messages)
        verb, amount, *_ = [*script.split(), "", ""]
        if verb == "hold":
            self.waiting += 1
            await self.release.wait()
        for event in events_of(self._reply(verb, int(amount) if amount.isdigit() else 0, done)):
            yield event

    def _reply(self, verb: str, amount: int, done: int) -> Reply:
        if verb == "rounds" and done < amount:
            return Reply.of(self._call("pay"))
        if verb in ("look", "pay") and not done:
            return Reply.of(*(self._call(verb) for _ in range(amount)))
        return Reply.of(_ANSWER)

    def _call(self, name: str) -> ToolCall:
        number = next(self._numbers)
        return ToolCall.of(name, {"order": number, "note": "for the order of last Tuesday"}, id=f"call_{number}")

    async def close(self) -> None:
        return


def _progress(messages: Sequence[ChatMessage]) -> tuple[str, int]:
    """The last user message, and how many results came after it."""
    done = 0
    for message in reversed(messages):
        if message.role is Role.USER:
            return message.content or "", done
        done += len(message.results)
    return "", done


@tool
async def look(order: int, note: str) -> str:
    return f"order {order} is on its way"


@tool(side_effects=True)
async def pay(order: int, note: str) -> str:
    return f"order {order} is paid"


async def allow(call: ToolCall) -> Decision:
    return Decision(True)


async def leave_pending(call: ToolCall) -> Decision | None:
    return None


def history(count: int) -> list[ChatMessage]:
    """So many messages by turns of a user and an assistant, of forty words each that compress as prose does."""
    chance = random.Random(count)
    letters = "etaoinshrdlucmfwyp"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(1500)]
    return [
        ChatMessage(Role.ASSISTANT if at % 2 else Role.USER, " ".join(chance.choices(words, k=40)))
        for at in range(count)
    ]


async def open_conversation(
    ledger: Any, id: str, engine: ScriptedEngine, decide: Any = allow, **options: Any
) -> ToolConversation:
    """A conversation in a ledger; without a ledger, in memory."""
    if ledger is None:
        return ToolConversation(engine, [look, pay], decide=decide, context=ANN)
    return await ToolConversation.open(ledger, id, engine, [look, pay], decide=decide, context=ANN, **options)
