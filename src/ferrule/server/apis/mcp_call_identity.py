"""Which call a client of MCP means that gives its calls no names: the one that still waits, or else a new one.

A model that was told to wait calls again with the same arguments. That must find the call that a person has given leave
for meanwhile; and after it has run, the same arguments are a new call, which needs leave of its own.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from ferrule.core.context import Principal
from ferrule.core.json_text import digest
from ferrule.run.ledger.ledger import CallState, Ledger
from ferrule.server.tools.service import Place

_OVER = frozenset({CallState.DONE, CallState.FAILED, CallState.UNKNOWN, CallState.REFUSED})


async def place_again(ledger: Ledger, principal: Principal, tool: str, arguments: object) -> Place:
    """The place of the first of these calls that is not over."""
    named = [principal.tenant, principal.name, tool, arguments]
    conversation = f"same_{digest(named)[:40]}"

    async def is_over(number: int) -> bool:
        call = await ledger.call(conversation, str(number))
        if call is None or call.state in _OVER:
            return call is not None
        if call.state is not CallState.DENIED:
            return False
        # A no is told for as long as the question would have stood.
        asked = await ledger.approval_for(conversation, call.id)
        return asked is None or asked.expires_at <= time.time()

    return Place(conversation, str(await first_not(is_over)))


async def first_not(is_over: Callable[[int], Awaitable[bool]]) -> int:
    """The first number from 1 on that is not over, where those that are come first. Steps grow with its digits only."""
    high = 1
    while await is_over(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if await is_over(middle) else (low, middle)
    return high
