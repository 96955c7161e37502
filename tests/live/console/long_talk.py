"""A long conversation in a ledger: two events in each round, what the model says and calls and what the call gives."""

from __future__ import annotations

import time

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.outcome import Answered, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.run.ledger.address import ledger_at
from live.console.talk import Talk

_LOOK = ToolDefinition("look", "Looks at a city.")


async def write_long_talk(file: str, id: str, rounds: int) -> None:
    async with await ledger_at(file) as ledger:
        talk = Talk(ledger, id, Principal("ann"), time.time() - 2 * rounds, (_LOOK,))
        await talk.said(f"Look at {rounds} places.")
        for number in range(1, rounds + 1):
            call = ToolCall.of("look", {"city": f"City {number}"}, f"c{number}")
            await talk.answered("And the next one.", call)
            seen = Answered({"sky": "clear", "wind": {"from": "west", "speed": number}})
            await talk.ran(call, Unknown("the connection was lost") if number % 100 == 0 else seen)
        await talk.ended()
