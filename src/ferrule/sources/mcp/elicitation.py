"""Elicitation: a server asks the user for input during a call. The request and the answer are plain values.

A callback answers the request; without one every request is declined. The answer is sent to the server only if it
matches the requested schema.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from ferrule.core.context import CallContext
from ferrule.core.fault import Fault
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
    callers: tuple[CallContext, ...] = ()
    """The calls of this server that run: `context` is one of them, if it is known."""


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
    if elicitation.url and not host_of(elicitation.url):
        _log.warning("%r asked to open an address that cannot be shown plainly; it got no answer", elicitation.server)
        return ElicitAnswer("cancel")
    try:
        answer = await elicit(elicitation)
    # The callback is the program's own code. If it fails, the server still needs an answer, and the call continues.
    except Exception:
        _log.exception("the callback that answers %r raised an exception", elicitation.server)
        return ElicitAnswer("cancel")
    if answer.action != "accept" or elicitation.url:
        return answer
    content = with_defaults(elicitation.schema, answer.content)
    if answer_faults(elicitation.schema, content):
        _log.warning("the answer to %r does not fit its form, and was not sent", elicitation.server)
        return ElicitAnswer("cancel")
    return ElicitAnswer("accept", content)


def with_defaults(schema: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with the defaults of the form where it has no value."""
    declared = schema.get("properties")
    properties = cast("dict[str, Any]", declared) if isinstance(declared, dict) else {}
    defaults: dict[str, Any] = {
        name: schema_of_property["default"]
        for name, schema_of_property in properties.items()
        if isinstance(schema_of_property, dict) and "default" in schema_of_property
    }
    return {**defaults, **content}


def answer_faults(schema: Mapping[str, Any], content: object) -> tuple[Fault, ...]:
    """Return what is wrong with an answer to a form, whose schema may itself be invalid."""
    try:
        return tuple(checker_for(admit(dict(schema))).faults(content))
    except SchemaError as refusal:
        return (Fault("", "schema", f"the schema of the question is invalid: {refusal.message}"),)


def host_of(url: str) -> str:
    """Return the host of an address that a person may be shown; empty if a browser could read another one in it.

    Example:
        assert host_of("https://good.example@evil.example/login") == "evil.example"
    """
    if not (url.isascii() and url.isprintable()) or " " in url or "\\" in url:
        return ""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""
