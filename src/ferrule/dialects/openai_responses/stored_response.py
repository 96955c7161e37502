"""Bodies of what is asked about a stored response: the response itself, what went into it, that it was deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ferrule.dialects.field import Field
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.dialects.openai_error import error_body
from ferrule.dialects.openai_responses.history import error_text, read_texts
from ferrule.dialects.openai_responses.output_items import failure_of
from ferrule.dialects.openai_responses.snapshot import Snapshot
from ferrule.errors import DefinitionError, FerruleError

_DEFAULT_LIMIT, _MOST = 20, 100
_ORDERS = {"asc": False, "desc": True}


def response_body(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The response as of the last of its events, from queued to however it ended."""
    return Snapshot.of(events).response()


def deleted_body(id: str) -> dict[str, Any]:
    return {"id": id, "object": "response", "deleted": True}


def error_event(error: FerruleError, number: int) -> dict[str, Any]:
    """An error that is told in a stream beside the response, not of it: the client yields it and goes on reading."""
    told = error_body(error)["error"]
    named = {"code": told["code"], "message": told["message"], "param": told["param"]}
    return {"type": "error", **named, "sequence_number": number}


def input_items(body: Mapping[str, Any], response_id: str) -> list[dict[str, Any]]:
    """What a request brought, oldest first, as it is listed later. The body was read before, and found good.

    Items without an id get one; everything that a client may leave out is there.
    """
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else entries(given)
    return [_listed(item, f"item_{response_id}_{at}") for at, item in enumerate(items)]


def input_items_body(items: Sequence[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """A page of them, newest first where the query does not say otherwise; `after` is the id of the one before it."""
    is_reversed = Field(query.get("order"), "order").or_else(lambda field: field.one_of(_ORDERS), True)
    limit, after = _limit(query.get("limit")), query.get("after")
    ordered = list(reversed(items)) if is_reversed else list(items)
    if after is not None:
        ids = [item["id"] for item in ordered]
        if after not in ids:
            raise DefinitionError(f"after: there is no item {after[:60]!r}", hint="Use the last_id of the page before.")
        ordered = ordered[ids.index(after) + 1 :]
    page = ordered[:limit]
    ends = {"first_id": page[0]["id"] if page else "", "last_id": page[-1]["id"] if page else ""}
    return {"object": "list", "data": page, **ends, "has_more": len(ordered) > limit}


def _limit(told: str | None) -> int:
    if told is None:
        return _DEFAULT_LIMIT
    if not (told.isascii() and told.isdigit() and len(told) <= len(str(_MOST)) and 1 <= int(told) <= _MOST):
        raise DefinitionError(f"limit: {told[:20]!r} is not taken", hint=f"Send a number from 1 to {_MOST}.")
    return int(told)


def _listed(item: dict[str, Any], id: str) -> dict[str, Any]:
    kind = text(item.get("type")) or "message"
    return {"id": text(item.get("id")) or id, "type": kind, **_LISTED[kind](item)}


def _message(item: dict[str, Any]) -> dict[str, Any]:
    texts = read_texts(Field(item.get("content")))
    head = {"role": item["role"], "status": "completed"}
    if item["role"] == "assistant":
        return {**head, "content": [{"type": "output_text", "text": said, "annotations": []} for said in texts]}
    return {**head, "content": [{"type": "input_text", "text": said} for said in texts]}


def _reasoning(item: dict[str, Any]) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": said} for said in read_texts(Field(item.get("summary")))]
    content = [{"type": "reasoning_text", "text": said} for said in read_texts(Field(item.get("content")))]
    return {"summary": summary, "content": content}


def _output(item: dict[str, Any]) -> dict[str, Any]:
    output = "".join(read_texts(Field(item["output"])))
    return {"call_id": item["call_id"], "output": output, "status": "completed"}


def _hosted_call(item: dict[str, Any]) -> dict[str, Any]:
    error = item.get("error")
    told = {"output": item.get("output"), "error": None if error is None else failure_of(error_text(error))}
    approval = {"approval_request_id": text(item.get("approval_request_id")) or None}
    return {**_kept(item, "server_label", "name", "arguments"), **told, **approval}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {"name": text(tool.get("name")), "input_schema": mapping(tool.get("input_schema"))}
        for tool in entries(item.get("tools"))
    ]
    return {"server_label": item["server_label"], "tools": tools}


def _kept(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: item[name] for name in names}


_LISTED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": lambda item: {**_kept(item, "call_id", "name", "arguments"), "status": "completed"},
    "function_call_output": _output,
    "mcp_call": _hosted_call,
    "mcp_approval_request": lambda item: _kept(item, "server_label", "name", "arguments"),
    "mcp_approval_response": lambda item: {
        **_kept(item, "approval_request_id", "approve"),
        "reason": text(item.get("reason")) or None,
    },
    "mcp_list_tools": _list,
}
