"""Decode a client's body. Unsupported features of the API are refused with their path, never dropped.

A field that nobody reads is reported, or refused if it must not be left out: see `ignored_fields`. `truncation` has no
effect: it only permits to shorten a conversation that is too long, and it is never shortened.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.engine_options import read_responses_options
from ferrule.dialects.field import Field
from ferrule.dialects.ignored_fields import RESPONSES, ignored_fields, tracked
from ferrule.dialects.openai_responses.client_tools import OfferedTools
from ferrule.dialects.openai_responses.history import History
from ferrule.dialects.openai_responses.hosted_tools import Hosts
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.openai_responses.tool_choice import read_choice
from ferrule.dialects.tool_definitions import read_policy

_UNSUPPORTED = {
    "conversation": "Name the response to continue in previous_response_id, or send the whole conversation as input.",
    "prompt": "Send the prompt itself as input and instructions.",
}
_STORED = ("previous_response_id", "background")
_TRUNCATIONS = {"auto": "auto", "disabled": "disabled"}
# Reasoning is never encrypted here: it comes as text.
_LABELS = ("safety_identifier", "prompt_cache_key")
_ENCRYPTED = "reasoning.encrypted_content"
_METADATA_PAIRS, _METADATA_KEY, _METADATA_VALUE = 16, 64, 512


def read_responses_request(body: dict[str, Any], hosts: Hosts | None = None) -> ResponsesRequest:
    """Read a body. `hosts` are the servers that the caller may name. Raises `DefinitionError` for an invalid body."""
    root, servers_by_label = tracked(body), hosts or {}
    for name, hint in _UNSUPPORTED.items():
        if root[name].is_given:
            raise root[name].refusal("is not supported", hint)
    tools = OfferedTools(servers_by_label)
    tools.read(root["tools"])
    format, schema = _read_format(root["text"])
    instructions = root["instructions"].optional(Field.string)
    history = _read_input(root["input"], servers_by_label, tools)
    functions, servers = tuple(tools.definitions.values()), tuple(tools.servers.values())
    choice = read_choice(root["tool_choice"], tools)
    # The response echoes it.
    root["tool_choice"].require_json()
    hosted = {tool.definition.name: tool.definition for server in servers for tool in server.tools}
    root["tool_choice"].build(lambda: choice.select_tools((*functions, *hosted.values())))
    system = (ChatMessage.system(instructions),) if instructions is not None else ()
    _check_unused(root)
    fields: dict[str, Any] = {
        "messages": (*system, *history.finish()),
        "tools": functions,
        "tool_choice": choice,
        "tool_search": tools.search,
        "tool_choice_policy": read_policy(root),
        "parallel_tool_calls": root["parallel_tool_calls"].or_else(Field.boolean, True),
        "response_schema": schema,
        "model": root["model"].optional(Field.string),
        "max_tokens": root["max_output_tokens"].optional(Field.positive),
        "temperature": root["temperature"].optional(Field.number),
        "top_p": root["top_p"].optional(Field.number),
        "engine_options": read_responses_options(body),
    }
    max_tool_calls, metadata = root["max_tool_calls"].optional(_positive), _read_metadata(root["metadata"])
    request = ToolCallRequest(**fields, ignored=ignored_fields(root, RESPONSES))
    store, background = root["store"].or_else(Field.boolean, True), root["background"].or_else(Field.boolean, False)
    if background and not store:
        raise root["background"].refusal(
            "a response that is not stored cannot be fetched later", "Leave out store, or send true."
        )
    return ResponsesRequest(
        request=request,
        previous_response_id=root["previous_response_id"].optional(Field.string),
        store=store,
        background=background,
        stream=root["stream"].or_else(Field.boolean, False),
        approvals=tuple(history.answers),
        servers=servers,
        instructions=instructions,
        max_tool_calls=max_tool_calls,
        metadata=metadata,
        labels={name: value for name in _LABELS if isinstance(value := root[name].value, str)},
        choice=root["tool_choice"].value or "auto",  # pyright: ignore[reportArgumentType]  # validated above
        text={"format": format},
        client_tools=dict(tools.client_tools),
        loaded_tools=tuple(tools.loaded),
        declared_tools=tuple(tools.declared),
        left_out=dict(tools.left_out),
    )


def read_request(body: dict[str, Any]) -> ToolCallRequest:
    """Read only the request, for a server that stores nothing and has no tools of its own."""
    root = Field(body)
    for name in _STORED:
        if root[name].value:
            raise root[name].refusal(
                "nothing is stored", "Send the whole conversation as input, and wait for the response."
            )
    responses_request = read_responses_request(body)
    if responses_request.approvals:
        raise root["input"].refusal("no call waits for approval", "Leave out mcp_approval_response.")
    for path, kind in responses_request.left_out.items():
        raise Field(kind, f"{path}.type").refusal(f"{kind!r} is not supported", "Send functions.")
    if responses_request.client_tools or responses_request.request.tool_search:
        # The request alone does not say what the caller knows them as.
        raise root["tools"].refusal("namespaces, custom tools and tool_search are not supported", "Send functions.")
    return responses_request.request


def _read_input(input: Field, hosts: Hosts, tools: OfferedTools) -> History:
    history = History(hosts, tools)
    if isinstance(input.value, str):
        history.add_item(Field({"role": "user", "content": input.value}, input.path))
        return history
    if not input.items():
        raise input.refusal("there is no input", "Send a string or a list with at least one item.")
    for item in input.items():
        history.add_item(item)
    return history


def _read_format(config: Field) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Read the format, as the response echoes it, and its schema."""
    if not config.is_given or not config["format"].is_given:
        return {"type": "text"}, None
    format = config["format"]
    match format["type"].string():
        case "text":
            return {"type": "text"}, None
        case "json_object":
            return {"type": "json_object"}, {"type": "object"}
        case "json_schema":
            schema = format["schema"].object()
            name = format["name"].or_else(Field.string, "response")
            return {"type": "json_schema", "name": name, "schema": schema, "strict": True}, schema
        case _:
            raise format["type"].refusal("unknown format", "Use text, json_object or json_schema.")


def _read_metadata(field: Field) -> dict[str, str]:
    if not field.is_given:
        return {}
    metadata = field.object()
    if len(metadata) > _METADATA_PAIRS:
        raise field.refusal("has too many entries", f"Send at most {_METADATA_PAIRS}.")
    for key in metadata:
        if len(key) > _METADATA_KEY or len(field[key].string()) > _METADATA_VALUE:
            hint = f"Keys may have {_METADATA_KEY} characters, values {_METADATA_VALUE}."
            raise field.refusal(f"{key[:60]!r} or its value is too long", hint)
    return metadata


def _positive(field: Field) -> int:
    number = field.integer()
    if number < 1:
        raise field.refusal("must be at least 1", "Leave it out, or set tool_choice to none.")
    return number


def _check_unused(root: Field) -> None:
    for entry in root["include"].items():
        if entry.string() != _ENCRYPTED:
            entry.leave_out(entry.string())
    root["reasoning"].optional(Field.opened)
    root["stream_options"].optional(Field.object)
    root["truncation"].optional(lambda field: field.one_of(_TRUNCATIONS))
