"""Bodies about a stored response: the response itself, its input items, its deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ferrule.core.media import Media
from ferrule.core.message import Text
from ferrule.dialects.field import Field
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.dialects.openai_error import error_body
from ferrule.dialects.openai_responses.history import error_text, read_parts, read_texts
from ferrule.dialects.openai_responses.media import part_body
from ferrule.dialects.openai_responses.output_items import failure_of
from ferrule.dialects.openai_responses.snapshot import Snapshot
from ferrule.errors import DefinitionError, FerruleError

_DEFAULT_LIMIT, _MAX_LIMIT = 20, 100
_ORDERS = {"asc": False, "desc": True}


def response_body(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the response as of its last event."""
    return Snapshot.of(events).response()


def deleted_body(id: str) -> dict[str, Any]:
    return {"id": id, "object": "response", "deleted": True}


def error_event(error: FerruleError, number: int) -> dict[str, Any]:
    """Return an error of the stream, not of the response: the client yields it and continues to read."""
    error_fields = error_body(error)["error"]
    fields = {"code": error_fields["code"], "message": error_fields["message"], "param": error_fields["param"]}
    return {"type": "error", **fields, "sequence_number": number}


def input_items(body: Mapping[str, Any], response_id: str) -> list[dict[str, Any]]:
    """Return the input items of a request, oldest first, as they are listed later. The body must be valid.

    Items without an id get one, and optional fields are filled in.
    """
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else entries(value)
    return [_input_item(item, f"item_{response_id}_{index}") for index, item in enumerate(items)]


def input_items_body(items: Sequence[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return a page of input items, newest first by default; `after` is the id of the last item of the page before."""
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


def _limit(value: str | None) -> int:
    if value is None:
        return _DEFAULT_LIMIT
    if not (
        value.isascii() and value.isdigit() and len(value) <= len(str(_MAX_LIMIT)) and 1 <= int(value) <= _MAX_LIMIT
    ):
        raise DefinitionError(f"limit: {value[:20]!r} is invalid", hint=f"Send a number from 1 to {_MAX_LIMIT}.")
    return int(value)


def _input_item(item: dict[str, Any], id: str) -> dict[str, Any]:
    kind = text(item.get("type")) or "message"
    return {"id": text(item.get("id")) or id, "type": kind, **_ITEM_VIEWS[kind](item)}


def _message(item: dict[str, Any]) -> dict[str, Any]:
    head = {"role": item["role"], "status": "completed"}
    if item["role"] == "assistant":
        texts = read_texts(Field(item.get("content")))
        return {**head, "content": [{"type": "output_text", "text": value, "annotations": []} for value in texts]}
    return {**head, "content": [part_body(part) for part in read_parts(Field(item.get("content")))]}


def _reasoning(item: dict[str, Any]) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": value} for value in read_texts(Field(item.get("summary")))]
    content = [{"type": "reasoning_text", "text": value} for value in read_texts(Field(item.get("content")))]
    return {"summary": summary, "content": content}


def _output(item: dict[str, Any]) -> dict[str, Any]:
    parts = read_parts(Field(item["output"]))
    has_media = any(isinstance(part, Media) for part in parts)
    output = (
        list(map(part_body, parts)) if has_media else "".join(part.text for part in parts if isinstance(part, Text))
    )
    return {"call_id": item["call_id"], "output": output, "status": "completed"}


def _call(item: dict[str, Any]) -> dict[str, Any]:
    namespace = text(item.get("namespace"))
    fields = {**_copy_fields(item, "call_id", "name"), "status": "completed"}
    return {**fields, "namespace": namespace} if namespace else fields


def _search(item: dict[str, Any]) -> dict[str, Any]:
    execution = text(item.get("execution")) or "server"
    return {"call_id": item.get("call_id"), "execution": execution, "status": "completed"}


def _hosted_call(item: dict[str, Any]) -> dict[str, Any]:
    error = item.get("error")
    result = {"output": item.get("output"), "error": None if error is None else failure_of(error_text(error))}
    approval = {"approval_request_id": text(item.get("approval_request_id")) or None}
    return {**_copy_fields(item, "server_label", "name", "arguments"), **result, **approval}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {"name": text(tool.get("name")), "input_schema": mapping(tool.get("input_schema"))}
        for tool in entries(item.get("tools"))
    ]
    return {"server_label": item["server_label"], "tools": tools}


def _copy_fields(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: item[name] for name in names}


_ITEM_VIEWS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": lambda item: {**_call(item), "arguments": item["arguments"]},
    "function_call_output": _output,
    "custom_tool_call": lambda item: {**_call(item), "input": item["input"]},
    "custom_tool_call_output": _output,
    "tool_search_call": lambda item: {**_search(item), "arguments": item["arguments"]},
    "tool_search_output": lambda item: {**_search(item), "tools": entries(item.get("tools"))},
    "compaction": lambda item: _copy_fields(item, "encrypted_content"),
    "additional_tools": lambda item: {
        "role": text(item.get("role")) or "developer",
        "tools": entries(item.get("tools")),
    },
    "mcp_call": _hosted_call,
    "mcp_approval_request": lambda item: _copy_fields(item, "server_label", "name", "arguments"),
    "mcp_approval_response": lambda item: {
        **_copy_fields(item, "approval_request_id", "approve"),
        "reason": text(item.get("reason")) or None,
    },
    "mcp_list_tools": _list,
}
