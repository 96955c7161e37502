"""Elicitation: a server asks a person something in the middle of a call. Here it is a value, and so is the answer.

Who answers is given in from outside, where approvals live; without one everything is declined. An answer goes to the
server only if it fits the schema that the server asked with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from ferrule.core.context import CallContext
from ferrule.errors import SchemaError
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for


@dataclass(frozen=True, slots=True)
class Elicitation:
    """What is asked. `schema` is the form to fill in; `url` is an address to visit instead, never opened by us."""

    server: str
    message: str
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    url: str = ""
    context: CallContext | None = None
    """The call in whose course it is asked; None where several run and the protocol does not say."""


@dataclass(frozen=True, slots=True)
class ElicitAnswer:
    """`decline` is a person's no; `cancel` is no answer."""

    action: Literal["accept", "decline", "cancel"] = "decline"
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])


Elicit: TypeAlias = Callable[[Elicitation], Awaitable[ElicitAnswer]]


async def declined(asked: Elicitation) -> ElicitAnswer:
    """The answer where nobody is there to ask."""
    return ElicitAnswer("decline")


async def answer_to(asked: Elicitation, elicit: Elicit) -> ElicitAnswer:
    """The answer, with the form's defaults filled in and checked. Whatever goes wrong is no answer."""
    (answer,) = await asyncio.gather(elicit(asked), return_exceptions=True)
    match answer:
        case asyncio.CancelledError():
            raise answer
        case BaseException():
            return ElicitAnswer("cancel")
        case ElicitAnswer(action="accept") if not asked.url:
            content = {**_defaults(asked.schema), **answer.content}
            return ElicitAnswer("accept", content) if _fits(content, asked.schema) else ElicitAnswer("cancel")
        case _:
            return answer


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    held = schema.get("properties")
    properties = cast("dict[str, Any]", held) if isinstance(held, dict) else {}
    return {name: one["default"] for name, one in properties.items() if isinstance(one, dict) and "default" in one}


def _fits(content: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    try:
        return not checker_for(admit(dict(schema))).faults(dict(content))
    except SchemaError:
        return False
