"""A client's body, read. What the API allows and Ferrule cannot do is refused with its path, never dropped.

Accepted without effect, because they bind nobody: `include`, `reasoning`, `stream_options`, and a `truncation` that
would allow the conversation to be cut where it is too long; it never is.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.choice_policy import read_policy
from ferrule.dialects.field import Field
from ferrule.dialects.openai_responses.history import History
from ferrule.dialects.openai_responses.hosted_tools import HostedServer, Hosts, read_hosted
from ferrule.dialects.openai_responses.responses_request import ResponsesAsk
from ferrule.dialects.openai_responses.tool_choice import read_choice, read_tool

_NOT_KEPT = {
    "conversation": "Name the response to go on from in previous_response_id, or send the whole conversation as input.",
    "prompt": "Send the prompt itself as input and instructions.",
}
_STORED = ("previous_response_id", "background")
_TRUNCATIONS = {"auto": "auto", "disabled": "disabled"}
_METADATA_PAIRS, _METADATA_KEY, _METADATA_VALUE = 16, 64, 512


def read_ask(body: dict[str, Any], hosts: Hosts | None = None) -> ResponsesAsk:
    """`hosts` are the gateway's servers that the caller may name. `DefinitionError` says what is wrong, and where."""
    root, known = Field(body), hosts or {}
    for name, hint in _NOT_KEPT.items():
        if root[name].is_given:
            raise root[name].refusal("nothing is kept here under that name", hint)
    functions, servers = _read_tools(root["tools"], known)
    choice = read_choice(root["tool_choice"], servers)
    hosted = {tool.definition.name: tool.definition for server in servers for tool in server.tools}
    root["tool_choice"].made(lambda: choice.offered((*functions, *hosted.values())))
    format, schema = _read_format(root["text"])
    instructions = root["instructions"].optional(Field.string)
    history = _read_input(root["input"], known)
    system = (ChatMessage.system(instructions),) if instructions is not None else ()
    _check_unused(root)
    request = ToolCallRequest(
        messages=(*system, *history.ended()),
        tools=functions,
        tool_choice=choice,
        tool_choice_policy=read_policy(root),
        parallel_tool_calls=root["parallel_tool_calls"].or_else(Field.boolean, True),
        response_schema=schema,
        model=root["model"].optional(Field.string),
        max_tokens=root["max_output_tokens"].optional(Field.integer),
        temperature=root["temperature"].optional(Field.number),
        top_p=root["top_p"].optional(Field.number),
    )
    store, background = root["store"].or_else(Field.boolean, True), root["background"].or_else(Field.boolean, False)
    if background and not store:
        raise root["background"].refusal("what is not stored cannot be fetched later", "Leave out store, or send true.")
    return ResponsesAsk(
        request=request,
        previous_response_id=root["previous_response_id"].optional(Field.string),
        store=store,
        background=background,
        stream=root["stream"].or_else(Field.boolean, False),
        approvals=tuple(history.answers),
        hosted=servers,
        instructions=instructions,
        max_tool_calls=root["max_tool_calls"].optional(_positive),
        metadata=_read_metadata(root["metadata"]),
        choice=root["tool_choice"].value or "auto",  # pyright: ignore[reportArgumentType]  # it was read above
        text={"format": format},
    )


def read_request(body: dict[str, Any]) -> ToolCallRequest:
    """The request alone, for a server that stores nothing and has no tools of its own."""
    root = Field(body)
    for name in _STORED:
        if root[name].value:
            raise root[name].refusal("nothing is stored here", "Send the whole conversation as input, and wait for it.")
    ask = read_ask(body)
    if ask.approvals:
        raise root["input"].refusal("nothing waits for leave here", "Leave out mcp_approval_response.")
    return ask.request


def _read_tools(field: Field, hosts: Hosts) -> tuple[tuple[ToolDefinition, ...], tuple[HostedServer, ...]]:
    functions: dict[str, ToolDefinition] = {}
    servers: dict[str, HostedServer] = {}
    for entry in field.items():
        if entry["type"].value == "mcp":
            server = read_hosted(entry, hosts)
            if server.label in servers:
                raise entry["server_label"].refusal(f"{server.label!r} was declared before", "Declare it once.")
            servers[server.label] = server
            continue
        tool = read_tool(entry)
        if tool.name in functions:
            raise entry.refusal(f"a tool named {tool.name!r} was given before", "Give each tool a name of its own.")
        functions[tool.name] = tool
    for server in servers.values():
        if both := functions.keys() & set(server.names):
            told = f"{sorted(both)[0]!r} is a function and a tool of {server.label!r}"
            raise field.refusal(told, "Give the function another name, or leave the tool out with allowed_tools.")
    return tuple(functions.values()), tuple(servers.values())


def _read_input(input: Field, hosts: Hosts) -> History:
    history = History(hosts)
    if isinstance(input.value, str):
        history.take(Field({"role": "user", "content": input.value}, input.path))
        return history
    if not input.items():
        raise input.refusal("there is no input", "Send a string or a list with at least one item.")
    for item in input.items():
        history.take(item)
    return history


def _read_format(config: Field) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The format as it is told back, and the schema that it means."""
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
            raise format["type"].refusal("is not known here", "Use text, json_object or json_schema.")


def _read_metadata(field: Field) -> dict[str, str]:
    if not field.is_given:
        return {}
    told = field.object()
    if len(told) > _METADATA_PAIRS:
        raise field.refusal("has too many entries", f"Send at most {_METADATA_PAIRS}.")
    for key in told:
        if len(key) > _METADATA_KEY or len(field[key].string()) > _METADATA_VALUE:
            hint = f"Keys may have {_METADATA_KEY} characters, values {_METADATA_VALUE}."
            raise field.refusal(f"{key[:60]!r} or its value is too long", hint)
    return told


def _positive(field: Field) -> int:
    number = field.integer()
    if number < 1:
        raise field.refusal("must be at least 1", "Leave it out, or set tool_choice to none.")
    return number


def _check_unused(root: Field) -> None:
    for entry in root["include"].items():
        entry.string()
    root["reasoning"].optional(Field.object)
    root["stream_options"].optional(Field.object)
    root["truncation"].optional(lambda field: field.one_of(_TRUNCATIONS))
