"""What the tests of every framework are given: two tools of ours, leave and refusal, types, and a small real model."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ferrule import CallContext, Decision, Engine, ToolCall, ToolError, pick, tool

SEEN: list[tuple[str, str]] = []
"""What has really happened: tools write it down. Empty when a test begins."""


@tool
def weather(city: str, days: int = 1) -> dict[str, Any]:
    """The weather of a city."""
    if city == "Nowhere":
        raise ToolError("no such city")
    SEEN.append((city, str(days)))
    return {"city": city, "sky": "clear"}


@tool(side_effects=True)
def send(to: str, context: CallContext) -> str:
    """Sends a letter."""
    SEEN.append((to, context.call_id))
    return f"sent to {to}"


async def always(call: ToolCall) -> Decision | None:
    return Decision(True)


async def never(call: ToolCall) -> Decision | None:
    return Decision(False, "not on Sundays")


class Place(BaseModel):
    # Sixteen characters of any script fit in the eighty tokens that the tests allow; an open name may not.
    name: Annotated[str, Field(max_length=16)]


class Sky(BaseModel):
    colour: str


@lru_cache(maxsize=1)
def smol() -> Engine:
    return pick(f"llama:{os.environ['FERRULE_MODEL']}?threads=1&slots=1&context=2048")
