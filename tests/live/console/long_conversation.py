"""Writes a long conversation into a ledger: in each round, a model reply with a call, and the call's result."""

from __future__ import annotations

import time

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.outcome import Answered, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.run.ledger.address import open_ledger
from live.console.conversation_writer import ConversationWriter

_LOOK = ToolDefinition("look", "Looks at a city.")


async def write_long_conversation(file: str, id: str, rounds: int) -> None:
    async with await open_ledger(file) as ledger:
        writer = ConversationWriter(ledger, id, Principal("ann"), time.time() - 2 * rounds, (_LOOK,))
        await writer.add_user_message(f"Look at {rounds} places.")
        for number in range(1, rounds + 1):
            call = ToolCall.of("look", {"city": f"City {number}"}, f"c{number}")
            await writer.add_reply("And the next one.", call)
            result = Answered({"sky": "clear", "wind": {"from": "west", "speed": number}})
            await writer.run_call(call, Unknown("the connection was lost") if number % 100 == 0 else result)
        await writer.finish()
