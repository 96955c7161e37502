"""Decode a client's body into a request. Unsupported features of the API are refused with their path, never dropped.

Unknown fields are ignored, as by every server of this API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.json_text import canonical
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.request import ChoiceMode, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.tool_definitions import define_tool, read_policy, read_tools

# Encode and decode tool choice and tools for OpenAI's chat API.
#
# | choice | encoded as |
# |---|---|
# | auto | left out |
# | none, required | that word |
# | one tool | `{"type": "function", "function": {"name"}}` |
# | some tools, auto or required | `{"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}` |

_MODES = {mode.value: mode for mode in ChoiceMode}
_SUBSET_MODES = {"auto": ChoiceMode.AUTO, "required": ChoiceMode.REQUIRED}


def choice_body(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    if len(tools) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode.value, "tools": tools}}


def read_choice(field: Field) -> ToolChoice:
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of(_MODES))
    match field["type"].value:
        case "function":
            return ToolChoice.one(field["function"]["name"].string())
        case "allowed_tools":
            allowed = field["allowed_tools"]
            names = [entry["function"]["name"].string() for entry in allowed["tools"].items()]
            return ToolChoice.allowed(
                names, allowed["mode"].or_else(lambda mode: mode.one_of(_SUBSET_MODES), _MODES["auto"])
            )
        case _:
            raise field["type"].refusal("unknown type of tool choice", "Use function or allowed_tools.")


def read_function_call(field: Field) -> ToolChoice:
    """Read the older field, which belongs to `functions`."""
    if not field.is_given:
        return ToolChoice.auto()
    if isinstance(field.value, str):
        return ToolChoice(field.one_of({"none": ChoiceMode.NONE, "auto": ChoiceMode.AUTO}))
    return ToolChoice.one(field["name"].string())


def tool_body(tool: ToolDefinition, *, strict: bool) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    function = {"name": tool.name, **description, "parameters": tool.parameters}
    return {"type": "function", "function": {**function, **({"strict": True} if strict else {})}}


def read_tool(field: Field) -> ToolDefinition:
    if field["type"].or_else(Field.string, "function") != "function":
        raise field["type"].refusal(
            f"{field['type'].value!r} is not a supported tool type",
            "Describe it as a function; hosted and custom tools are not supported.",
        )
    return read_function(field["function"])


def read_function(field: Field) -> ToolDefinition:
    return define_tool(field["name"], field["description"], field["parameters"])


# Our name, then the API's names, of which the first one present counts. top_k is not in OpenAI's API, but every open
# engine accepts it.
PARAMETERS: dict[str, tuple[Callable[[Field], Any], tuple[str, ...]]] = {
    "max_tokens": (Field.integer, ("max_completion_tokens", "max_tokens")),
    "temperature": (Field.number, ("temperature",)),
    "top_p": (Field.number, ("top_p",)),
    "top_k": (Field.integer, ("top_k",)),
    "seed": (Field.integer, ("seed",)),
}


def parameters_body(request: ToolCallRequest, max_tokens_field: str) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for ours, (_, theirs) in PARAMETERS.items():
        value = getattr(request, ours)
        if value is not None:
            body[max_tokens_field if ours == "max_tokens" else theirs[0]] = value
    if request.stop:
        body["stop"] = list(request.stop)
    return body


def read_parameters(body: Field) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for ours, (kind, theirs) in PARAMETERS.items():
        field = next((body[name] for name in theirs if body[name].is_given), None)
        if field is not None:
            parameters[ours] = kind(field)
    return {**parameters, "stop": read_stop(body["stop"])}


def read_stop(field: Field) -> tuple[str, ...]:
    if isinstance(field.value, str):
        return (field.value,)
    return tuple(entry.string() for entry in field.items())


_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}


def read_request(body: dict[str, Any]) -> ToolCallRequest:
    """Read a request. Raises `DefinitionError` for an invalid body, with the path and what to send instead."""
    root = Field(body)
    if root["n"].or_else(Field.integer, 1) != 1:
        raise root["n"].refusal("only 1 is supported", "Leave n out, and send the request again for another answer.")
    messages = _read_messages(root["messages"])
    uses_functions = root["functions"].is_given and not root["tools"].is_given
    if uses_functions:
        tools = read_tools(root["functions"], read_function)
        choice = read_function_call(root["function_call"])
    else:
        tools = read_tools(root["tools"], read_tool)
        choice = read_choice(root["tool_choice"])
    root["tool_choice"].build(lambda: choice.select_tools(tools))
    # The older fields support only one call.
    parallel = False if uses_functions else root["parallel_tool_calls"].or_else(Field.boolean, True)
    return ToolCallRequest(
        messages=messages,
        tools=tools,
        tool_choice=choice,
        tool_choice_policy=read_policy(root),
        parallel_tool_calls=parallel,
        response_schema=_read_schema(root),
        model=root["model"].optional(Field.string),
        **read_parameters(root),
    )


def uses_functions(body: dict[str, Any]) -> bool:
    """Whether the client uses the older API, and so reads `function_call` and not `tool_calls` in the answer."""
    return body.get("functions") is not None and body.get("tools") is None


def wants_usage(body: dict[str, Any]) -> bool:
    options = Field(body)["stream_options"]
    return options.is_given and options["include_usage"].or_else(Field.boolean, False)


def _read_schema(root: Field) -> dict[str, Any] | None:
    format, guided = root["response_format"], root["guided_json_schema"]
    response_schema: dict[str, Any] | None = None
    if format.is_given:
        match format["type"].string():
            case "text":
                pass
            case "json_object":
                response_schema = {"type": "object"}
            case "json_schema":
                response_schema = format["json_schema"]["schema"].or_else(Field.object, {"type": "object"})
            case _:
                raise format["type"].refusal("unknown format", "Use text, json_object or json_schema.")
    schema = guided.optional(Field.object)
    if response_schema is not None and schema is not None and canonical(response_schema) != canonical(schema):
        raise guided.refusal("differs from response_format", "Send only one of the two.")
    return response_schema if schema is None else schema


def _read_messages(field: Field) -> tuple[ChatMessage, ...]:
    if not field.items():
        raise field.refusal("there is no message", "Send at least one, such as a user's.")
    names: dict[str, str] = {}
    messages: list[ChatMessage] = []
    for at, entry in enumerate(field.items()):
        message = _read_message(entry, names, at)
        names.update({call.id: call.name for call in message.tool_calls})
        messages.append(message)
    return tuple(messages)


def _read_message(field: Field, names: dict[str, str], at: int) -> ChatMessage:
    role = field["role"].one_of(_ROLES)
    if field["role"].value == "function":
        name = field["name"].string()
        call_id = next((id for id, call_name in reversed(names.items()) if call_name == name), name)
        return ChatMessage.tool(call_id, "".join(_read_texts(field["content"])), name)
    if role is Role.TOOL:
        id = field["tool_call_id"].string()
        name = names.get(id) or field["name"].or_else(Field.string, "")
        return ChatMessage.tool(id, "".join(_read_texts(field["content"])), name)
    texts = tuple(Text(text) for text in _read_texts(field["content"]))
    if role is not Role.ASSISTANT:
        return ChatMessage(role, texts)
    text_parts: tuple[Part, ...] = () if texts == (Text(""),) else texts
    thought = field["reasoning_content"].or_else(Field.string, "") or field["reasoning"].or_else(Field.string, "")
    calls = [_read_call(entry) for entry in field["tool_calls"].items()]
    old = field["function_call"]
    if old.is_given:
        calls.append(ToolCall(f"call_{at}", _read_function_call(old)))
    return ChatMessage(role, ((Reasoning(thought),) if thought else ()) + text_parts + tuple(calls))


def _read_texts(field: Field) -> list[str]:
    if not field.is_given:
        return []
    if isinstance(field.value, str):
        return [field.value]
    return [_read_part(part) for part in field.items()]


def _read_part(field: Field) -> str:
    match field["type"].string():
        case "text":
            return field["text"].string()
        case "refusal":
            return field["refusal"].string()
        case kind:
            raise field["type"].refusal(
                f"{kind[:60]!r} is not supported", "Send text; images, audio and files are not supported."
            )


def _read_call(field: Field) -> ToolCall:
    if field["type"].or_else(Field.string, "function") != "function":
        raise field["type"].refusal("unknown type of call", "Send function calls.")
    return ToolCall(field["id"].string(), _read_function_call(field["function"]))


def _read_function_call(field: Field) -> FunctionCall:
    return FunctionCall(field["name"].string(), field["arguments"].string())
