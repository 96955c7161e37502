"""Elicitation: a server asks the user for input during a call. The request and the answer are plain values.

A callback answers the request; without one every request is declined. The answer is sent to the server only if it
matches the requested schema.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from ferrule.core.context import CallContext
from ferrule.errors import SchemaError
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A request for input. `schema` describes the form; `url` is an address to visit instead, never opened by us."""

    server: str
    message: str
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    url: str = ""
    context: CallContext | None = None
    """The call that it belongs to; None if several calls run, because the protocol does not say which."""


@dataclass(frozen=True, slots=True)
class ElicitAnswer:
    """The user's answer. `decline` means that the user refused; `cancel` means that there is no answer."""

    action: Literal["accept", "decline", "cancel"] = "decline"
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])


Elicit: TypeAlias = Callable[[Elicitation], Awaitable[ElicitAnswer]]


async def decline(elicitation: Elicitation) -> ElicitAnswer:
    """Decline: the default when there is nobody to ask."""
    return ElicitAnswer("decline")


async def answer_to(elicitation: Elicitation, elicit: Elicit) -> ElicitAnswer:
    """Get the answer, fill in the form's defaults and validate it. Any failure becomes `cancel`."""
    try:
        answer = await elicit(elicitation)
    # The callback is the program's own code. If it fails, the server still needs an answer, and the call continues.
    except Exception:
        _log.exception("the callback that answers %r raised an exception", elicitation.server)
        return ElicitAnswer("cancel")
    if answer.action != "accept" or elicitation.url:
        return answer
    content = {**_defaults(elicitation.schema), **answer.content}
    return ElicitAnswer("accept", content) if _fits(content, elicitation.schema) else ElicitAnswer("cancel")


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    declared = schema.get("properties")
    properties = cast("dict[str, Any]", declared) if isinstance(declared, dict) else {}
    return {
        name: schema_of_property["default"]
        for name, schema_of_property in properties.items()
        if isinstance(schema_of_property, dict) and "default" in schema_of_property
    }


def _fits(content: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    try:
        return not checker_for(admit(dict(schema))).faults(dict(content))
    except SchemaError:
        return False
