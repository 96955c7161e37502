"""Identify calls of MCP clients that send no call id: the same call if it is still waiting, otherwise a new one.

A model that has to wait calls again with the same arguments. That must find the call that was approved meanwhile. After
the call has run, the same arguments are a new call, which needs its own approval.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from ferrule.core.context import Principal
from ferrule.core.json_text import digest
from ferrule.run.ledger.ledger import CallState, Ledger
from ferrule.server.tools.service import CallKey

_ENDED = frozenset({CallState.DONE, CallState.FAILED, CallState.UNKNOWN, CallState.REFUSED})


async def unnamed_call_key(ledger: Ledger, principal: Principal, tool: str, arguments: object) -> CallKey:
    """Return the key of the first identical call that has not ended."""
    parts = [principal.tenant, principal.name, tool, arguments]
    conversation = f"same_{digest(parts)[:40]}"

    async def is_over(number: int) -> bool:
        call = await ledger.call(conversation, str(number))
        if call is None or call.state in _ENDED:
            return call is not None
        if call.state is not CallState.DENIED:
            return False
        # A denial is repeated until the approval would have expired.
        approval = await ledger.approval_for(conversation, call.id)
        return approval is None or approval.expires_at <= time.time()

    return CallKey(conversation, str(await first_open_number(is_over)))


async def first_open_number(is_over: Callable[[int], Awaitable[bool]]) -> int:
    """Return the first number, from 1, that is not over. All numbers before it are, so a binary search finds it."""
    high = 1
    while await is_over(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if await is_over(middle) else (low, middle)
    return high
