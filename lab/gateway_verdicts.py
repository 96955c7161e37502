"""Check what a client got from a gateway: every call against the schema that was sent, every event against its type.

Independent of the client: it sees only the HTTP traffic and what the client returned to the program.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import jsonschema

from lab.gateway_omissions import omissions
from lab.gateway_recorder import Exchange

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A worker whose venv has the types of an API."""

_APIS: Final = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
_UNTYPED: Final = ("ping", "error")
"""Anthropic's client ignores the first and raises the second; neither is in its union of event types."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The result of a run. `faults` is empty if all is well; `streams` and `events` count what was validated."""

    faults: tuple[str, ...]
    streams: int = 0
    events: int = 0
    calls: int = 0


def api_of(exchange: Exchange) -> str:
    """The API of an exchange; empty if it is none of them."""
    path = exchange.path.partition("?")[0]
    return next((api for end, api in _APIS.items() if path.endswith(end)), "")


def call_faults(calls: Sequence[Sequence[str]], exchanges: Sequence[Exchange]) -> list[str]:
    """What is wrong with calls, according to the schemas that the client sent (it may have changed them)."""
    schemas = {name: schema for one in exchanges for name, schema in _schemas(one.request)}
    faults: list[str] = []
    ids = [id for id, _, _ in calls]
    if len({*ids}) != len(ids) or not all(ids):
        faults.append(f"ids are not unique: {ids}")
    for _, name, arguments in calls:
        if name not in schemas:
            faults.append(f"{name} was not offered")
            continue
        try:
            value = json.loads(arguments)
        except ValueError:
            faults.append(f"{name}: {arguments[:80]!r} is not JSON")
            continue
        validator: Any = jsonschema.Draft202012Validator(schemas[name])
        faults += [f"{name}: {error.message}" for error in validator.iter_errors(value)]
    return faults


def stream_faults(exchanges: Sequence[Exchange], asks: Mapping[str, Ask]) -> RunVerdict:
    """Validate every answer: strictly by its types, and by the tables of what clients require."""
    faults: list[str] = []
    streams = events = 0
    for one in exchanges:
        api = api_of(one)
        if not api or one.status != 200:
            continue
        if one.is_stream:
            events_sent = [event for event in one.events if not event.is_done]
            typed = [event.value for event in events_sent if not _is_untyped(api, event.value)]
            answer = asks[api]({"op": "replay.check_answer", "given": {"api": api, "events": typed}})
            faults += omissions(api, one.events, one.request)
            streams, events = streams + 1, events + answer.get("read", 0)
        else:
            body = json.loads(one.content)
            answer = asks[api]({"op": "replay.check_answer", "given": {"api": api, "body": body}})
        faults += answer.get("faults", [])
        if answer["error"]:
            faults.append(f"it could not be validated: {answer['error']}")
    return RunVerdict(tuple(faults), streams, events)


def _is_untyped(api: str, value: Mapping[str, Any]) -> bool:
    return value.get("type") in _UNTYPED if api == "messages" else api == "chat" and "error" in value


def _schemas(body_value: Any) -> list[tuple[str, dict[str, Any]]]:
    """The tools of a request in any of the APIs, each with its schema."""
    schemas: list[tuple[str, dict[str, Any]]] = []
    body = cast("dict[str, Any]", body_value or {})
    tools: list[dict[str, Any]] = body.get("tools") or []
    for tool in tools:
        inner: dict[str, Any] = tool.get("function", tool)
        schema: dict[str, Any] = inner.get("parameters") or inner.get("input_schema") or {}
        schemas.append((inner.get("name", ""), {key: value for key, value in schema.items() if key != "$schema"}))
    return schemas
