"""The calls that an agent received, and what is wrong with them by the tools of its own requests.

Only the traffic is read: neither the agent nor the gateway is asked.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import jsonschema

from lab.api_answers import APIS
from lab.gateway_recorder import Exchange
from lab.gateway_verdicts import api_of

_PLAIN: Final = ("function_call", "custom_tool_call", "tool_search_call")
_CHANGED_BY_CLIENTS: Final = "$schema"


@dataclass(frozen=True, slots=True)
class Delivered:
    """What an answer brought: names and arguments of calls, why it ended, and the code of an error."""

    calls: Sequence[tuple[str, Any]]
    finish: str
    error: str


def delivered(exchange: Exchange) -> Delivered:
    """Read an answer of any API. Raises `ValueError` if the arguments of a call are not JSON."""
    api = api_of(exchange)
    if not exchange.is_stream:
        body = json.loads(exchange.content)
        if exchange.status != 200:
            return Delivered([], "", _error_text(body))
        items = body.get("output", [])
        answer = APIS[api].read_body(body)
        return Delivered(_item_calls(items) if api == "responses" else answer.calls, answer.finish, answer.error)
    events = [event.value for event in exchange.events if not event.is_done]
    answer = APIS[api].read_events(events)
    items = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
    return Delivered(_item_calls(items) if api == "responses" else answer.calls, answer.finish, answer.error)


def _error_text(body: Mapping[str, Any]) -> str:
    error: dict[str, Any] = body.get("error") or {}
    return str(error.get("message") or body)


def _item_calls(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """The calls among items of Responses; the name of one in a namespace is both, with a dot."""
    calls: list[tuple[str, Any]] = []
    for item in items:
        if item["type"] in _PLAIN:
            name = item.get("name", "tool_search")
            full_name = f"{item['namespace']}.{name}" if item.get("namespace") else name
            arguments = item.get("arguments", item.get("input"))
            is_text = item["type"] == "function_call"
            calls.append((full_name, json.loads(arguments) if is_text else arguments))
    return calls


def call_faults(exchange: Exchange) -> list[str]:
    """What is wrong with the calls of an answer, by the tools of its request."""
    try:
        calls = delivered(exchange).calls
    except ValueError as damage:
        return [f"a call is not JSON: {damage}"]
    tools = dict(offered_tools(exchange.request or {}))
    faults: list[str] = []
    for name, arguments in calls:
        if name not in tools:
            faults.append(f"{name} is not offered")
            continue
        schema = tools[name]
        if schema is None:
            faults += [] if isinstance(arguments, str) else [f"{name}: its input is no text"]
            continue
        validator: Any = jsonschema.Draft202012Validator(schema)
        faults += [f"{name}: {error.message}" for error in validator.iter_errors(arguments)]
    return faults


def offered_tools(request: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Every tool that a request offers with its schema; a custom tool has none."""
    entries: list[Any] = [*(request.get("tools") or ())]
    given: Any = request.get("input")
    items = cast("list[dict[str, Any]]", given if isinstance(given, list) else [])
    for item in items:
        if item.get("type") in ("additional_tools", "tool_search_output"):
            entries += item.get("tools") or ()
    yield from _entries(entries, "")


def _entries(entries: Sequence[Any], prefix: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    for entry in entries:
        if entry.get("type") == "namespace":
            yield from _entries(entry["tools"], f"{entry['name']}.")
            continue
        function = entry.get("function", entry)
        name = prefix + str(function.get("name", entry.get("type")))
        if entry.get("type") == "custom":
            yield name, None
        else:
            schema: dict[str, Any] = function.get("parameters") or function.get("input_schema") or {}
            yield name, {key: value for key, value in schema.items() if key != _CHANGED_BY_CLIENTS}
