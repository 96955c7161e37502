"""Converts Pydantic AI's messages to a Ferrule request, and a Ferrule reply to its response. It knows no engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic_ai import messages as their_messages
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings, ToolOrOutput
from pydantic_ai.settings import ToolChoice as TheirChoice
from pydantic_ai.usage import RequestUsage

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.event import FinishReason, Usage
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.request import ChoiceMode, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.extension import Extension

SYSTEM = "ferrule"
"""The provider's name in the framework."""
_PARAMETERS = ("max_tokens", "temperature", "top_p", "top_k", "seed")
FINISHES: dict[FinishReason, their_messages.FinishReason] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_call",
}


def request_of(
    messages: Sequence[their_messages.ModelMessage],
    instructions: Sequence[str],
    model_settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> ToolCallRequest:
    """Build a request. Settings and parameters are those from `prepare_request`."""
    settings = cast("Mapping[str, Any]", model_settings or {})
    output = parameters.output_object
    return ToolCallRequest(
        messages=_messages(messages, instructions),
        tools=tuple(
            ToolDefinition(tool.name, tool.description or "", tool.parameters_json_schema)
            for tool in parameters.declared_tool_defs.values()
        ),
        tool_choice=_choice(settings.get("tool_choice"), parameters),
        parallel_tool_calls=settings.get("parallel_tool_calls", True),
        response_schema=output.json_schema if output and parameters.output_mode == "native" else None,
        stop=tuple(settings.get("stop_sequences", ())),
        **{name: settings[name] for name in _PARAMETERS if name in settings},
    )


def response_of(reply: Reply, model: str) -> their_messages.ModelResponse:
    return their_messages.ModelResponse(
        parts=[_their_part(part) for part in reply.parts],
        usage=usage_of(reply.usage),
        model_name=model,
        provider_name=SYSTEM,
        provider_details=Extension.of(reply).as_field(),
        finish_reason=FINISHES[reply.finish_reason],
    )


def usage_of(usage: Usage | None) -> RequestUsage:
    if usage is None:
        return RequestUsage(unmeasured_requests=1)
    return RequestUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)


def _their_part(part: ReplyPart) -> their_messages.ModelResponsePart:
    match part:
        case Text(text):
            return their_messages.TextPart(text)
        case Reasoning(text):
            return their_messages.ThinkingPart(text)
        case ToolCall():
            details = {"receipt": part.receipt.as_dict()} if part.receipt else None
            arguments = part.function.arguments
            return their_messages.ToolCallPart(
                part.name, arguments, part.id, provider_name=SYSTEM, provider_details=details
            )


def _choice(chosen: TheirChoice, parameters: ModelRequestParameters) -> ToolChoice:
    """Convert the tool choice. Output tools stay allowed, unless "required" or a name demands other tools."""
    outputs = [tool.name for tool in parameters.output_tools]
    open_mode = ChoiceMode.AUTO if parameters.allow_text_output else ChoiceMode.REQUIRED
    match chosen:
        case None | "auto":
            return ToolChoice(open_mode)
        case "required":
            names, mode = [tool.name for tool in parameters.declared_function_tools], ChoiceMode.REQUIRED
        case ToolOrOutput():
            names, mode = [*chosen.function_tools, *outputs], open_mode
        case "none" | []:
            names, mode = outputs, open_mode
        case _:
            names, mode = chosen, ChoiceMode.REQUIRED
    available = [name for name in names if name in parameters.declared_tool_defs]
    if available:
        return ToolChoice.allowed(available, mode)
    if names or mode is ChoiceMode.REQUIRED:
        raise UserError(f"`tool_choice` names unknown tools: {', '.join(names) or '(no tools are offered)'}.")
    return ToolChoice.none()


def _messages(messages: Sequence[their_messages.ModelMessage], instructions: Sequence[str]) -> tuple[ChatMessage, ...]:
    """Convert messages. Chat templates support one system message at the beginning, so all system texts go there."""
    converted: list[ChatMessage] = []
    system: list[str] = []
    for message in messages:
        if isinstance(message, their_messages.ModelResponse):
            parts = tuple(_parts(message))
            converted += [ChatMessage(Role.ASSISTANT, parts)] if parts else []
            continue
        for part in message.parts:
            if isinstance(part, their_messages.SystemPromptPart) and not converted:
                system.append(part.content)
            else:
                converted.append(_message(part))
    texts = [text for text in (*system, *instructions) if text]
    return (*([ChatMessage.system("\n\n".join(texts))] if texts else []), *converted)


def _parts(message: their_messages.ModelResponse) -> Iterator[Part]:
    """Convert the parts of a response. Provider-specific parts of other providers are dropped."""
    for part in message.parts:
        if isinstance(part, their_messages.TextPart) and part.content:
            yield Text(part.content)
        elif isinstance(part, their_messages.ThinkingPart) and part.content:
            yield Reasoning(part.content)
        elif isinstance(part, their_messages.ToolCallPart):
            arguments = part.args if isinstance(part.args, str) and part.args else part.args_as_json_str()
            yield ToolCall.of(part.tool_name, arguments, part.tool_call_id)


def _message(part: their_messages.ModelRequestPart) -> ChatMessage:
    if isinstance(part, their_messages.SystemPromptPart):
        return ChatMessage.system(part.content)
    if isinstance(part, their_messages.UserPromptPart):
        items = [part.content] if isinstance(part.content, str) else part.content
        return ChatMessage.user("\n".join(filter(None, map(_text, items))))
    if isinstance(part, their_messages.ToolReturnPart):
        content = part.model_response_str(wrap_if_error=False)
        result = ToolResult(part.tool_call_id, part.tool_name, content, is_error=part.outcome != "success")
        return ChatMessage(Role.TOOL, (result,))
    problem = f"`{type(part).__name__}` cannot be sent as it is: call `model.prepare_messages(messages)` first."
    raise UserError(problem)


def _text(item: their_messages.UserContent) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, their_messages.TextContent):
        return item.content
    if isinstance(item, their_messages.CachePoint):
        return ""
    raise UserError(f"`{type(item).__name__}` cannot be sent: this model supports only text.")
