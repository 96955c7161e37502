"""Shared by the tests of every framework: two tools, approval and denial, types, and a small real model."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ferrule import CallContext, Decision, Engine, ToolCall, ToolError, load_engine, tool

CALLS: list[tuple[str, str]] = []
"""The calls that really ran: tools record them here. Empty when a test starts."""


@tool
def weather(city: str, days: int = 1) -> dict[str, Any]:
    """The weather of a city."""
    if city == "Nowhere":
        raise ToolError("no such city")
    CALLS.append((city, str(days)))
    return {"city": city, "sky": "clear"}


@tool(side_effects=True)
def send(to: str, context: CallContext) -> str:
    """Sends a letter."""
    CALLS.append((to, context.call_id))
    return f"sent to {to}"


async def always(call: ToolCall) -> Decision | None:
    return Decision(True)


async def never(call: ToolCall) -> Decision | None:
    return Decision(False, "not on Sundays")


class Place(BaseModel):
    # Sixteen characters of any script fit into the tests' eighty tokens; an unlimited name may not.
    name: Annotated[str, Field(max_length=16)]


class Sky(BaseModel):
    colour: str


@lru_cache(maxsize=1)
def smol() -> Engine:
    return load_engine(f"llama:{os.environ['FERRULE_MODEL']}?threads=1&slots=1&context=2048")
