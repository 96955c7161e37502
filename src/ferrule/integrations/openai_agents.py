"""OpenAI's Agents SDK: `Agent(name="a", model=FerruleModel("llama:model.gguf"), tools=export_tools([my_tool]))`.

A reply with a truncated or rejected call raises `ModelBehaviorError`, streamed or not. A request that no engine
supports raises `UserError`. An engine that fails raises its own error, with advice for the runner's retries. Truncated
text is returned, as the SDK's chat model does. Receipts are in `provider_data` of a call's item.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any, cast

from agents import (
    AgentOutputSchemaBase,
    FunctionTool,
    Handoff,
    Model,
    ModelBehaviorError,
    ModelProvider,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    RunContextWrapper,
    Tool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    Usage,
    UserError,
    default_tool_error_function,
    generation_span,
)
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest, ModelRetryNormalizedError
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext
from openai.types import responses as wire

from ferrule.core.call import Receipt, ToolCall
from ferrule.core.context import CallContext
from ferrule.core.event import Usage as OurUsage
from ferrule.core.json_text import dumps
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ChoicePolicy, ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.dialects.openai_chat.parameters import read_parameters
from ferrule.dialects.openai_responses.event_encoder import EventEncoder
from ferrule.dialects.openai_responses.request_decoder import read_request
from ferrule.dialects.result_text import result_text
from ferrule.dialects.tool_definitions import read_policy
from ferrule.engines.engine import Engine
from ferrule.errors import DefinitionError, EngineTimeoutError, FerruleError, ToolError
from ferrule.integrations.exported_tools import ExportableTools, ExportedTool, wrap_tools, wrap_tools_async
from ferrule.integrations.imported_tools import ImportedTool, ImportedTools
from ferrule.integrations.model import engine_of, rejection_reason, reply_events
from ferrule.run.decision import DecideInput
from ferrule.run.loop import deny_all
from ferrule.schema.checker import checker_for
from ferrule.sources.source import Source

__all__ = ["FerruleModel", "FerruleProvider", "export_tools", "export_tools_async", "import_tools"]

_MODES = ("auto", "none", "required")
_UNSUPPORTED = ("frequency_penalty", "presence_penalty", "top_logprobs")
_EVENTS: Mapping[str, type[Any]] = {
    "response.created": wire.ResponseCreatedEvent,
    "response.in_progress": wire.ResponseInProgressEvent,
    "response.output_item.added": wire.ResponseOutputItemAddedEvent,
    "response.output_item.done": wire.ResponseOutputItemDoneEvent,
    "response.content_part.added": wire.ResponseContentPartAddedEvent,
    "response.content_part.done": wire.ResponseContentPartDoneEvent,
    "response.output_text.delta": wire.ResponseTextDeltaEvent,
    "response.output_text.done": wire.ResponseTextDoneEvent,
    "response.reasoning_text.delta": wire.ResponseReasoningTextDeltaEvent,
    "response.reasoning_text.done": wire.ResponseReasoningTextDoneEvent,
    "response.function_call_arguments.delta": wire.ResponseFunctionCallArgumentsDeltaEvent,
    "response.function_call_arguments.done": wire.ResponseFunctionCallArgumentsDoneEvent,
    "response.completed": wire.ResponseCompletedEvent,
}
_INCOMPLETE_CALL = ("function_call", "incomplete")
_FINAL_EVENTS = ("response.completed", "response.incomplete")
_EVENTS_WITH_RECEIPTS = ("response.output_item.done", *_FINAL_EVENTS)


def export_tools(tools: ExportableTools, decide: DecideInput = deny_all) -> list[Tool]:
    """Export Ferrule tools to an agent.

    A tool with side effects interrupts the run until it is approved there. With `decide`, that function decides
    instead. For a source with connections use `export_tools_async`, in the event loop of the agent.

    Example:
        agent = Agent(name="weather", model=model, tools=export_tools([get_weather]))
    """
    return [_their_tool(tool, has_own_approval=decide is not deny_all) for tool in wrap_tools(tools, decide)]


async def export_tools_async(tools: ExportableTools, decide: DecideInput = deny_all) -> list[Tool]:
    """Like `export_tools`, in the running event loop."""
    return [
        _their_tool(tool, has_own_approval=decide is not deny_all) for tool in await wrap_tools_async(tools, decide)
    ]


def _their_tool(tool: ExportedTool, *, has_own_approval: bool) -> FunctionTool:
    definition = tool.definition

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        is_approved = context.is_tool_approved(definition.name, context.tool_call_id) is True
        # The SDK has no field for an error, so the text says it; raising would end the whole run.
        return result_text(await tool.call(arguments or "{}", context.tool_call_id, is_approved=is_approved))

    async def needs_approval(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        # Do not request approval for a call that cannot run.
        return tool.executor.requires_confirmation(ToolCall.of(definition.name)) and checker_for(
            definition.parameters
        ).fits(arguments)

    return FunctionTool(
        definition.name,
        definition.description,
        definition.parameters,
        invoke,
        # The strict mode would rewrite the schema.
        strict_json_schema=False,
        needs_approval=False if has_own_approval else needs_approval,
    )


def import_tools(
    tools: Iterable[Tool], *, context: Any = None, side_effects: Iterable[str] = (), id: str = "openai-agents"
) -> Source:
    """Import function tools as a Ferrule source. `context` is what the tools find in their run context.

    A tool that may need approval has side effects here, and so do those named in `side_effects`. A hosted tool, and a
    tool with guardrails or a conditional `is_enabled`, cannot run here and is refused.

    Example:
        talk = ToolConversation(engine, import_tools([search_tool]))
    """
    return ImportedTools([_imported_tool(tool, context) for tool in tools], id=id, side_effects=side_effects)


def _imported_tool(tool: Tool, their_context: Any) -> ImportedTool:
    if not isinstance(tool, FunctionTool):
        raise DefinitionError(f"{tool.name!r} is hosted by OpenAI and cannot run here", hint="Import function tools.")
    if tool.is_enabled is not True or tool.tool_input_guardrails or tool.tool_output_guardrails:
        problem = f"{tool.name!r} has guardrails or a conditional is_enabled, which need an agent"
        raise DefinitionError(problem, hint="Import the tool without guardrails, and guard it yourself.")

    async def run(arguments: Mapping[str, Any], context: CallContext) -> Any:
        text = dumps(dict(arguments))
        theirs = ToolContext(their_context, tool_name=tool.name, tool_call_id=context.call_id, tool_arguments=text)
        try:
            output = await invoke_function_tool(function_tool=tool, context=theirs, arguments=text)
        except (ModelBehaviorError, UserError) as error:
            raise ToolError(error.message) from error
        if output == default_tool_error_function(theirs, ValueError()):
            raise ToolError(output)
        return _plain_value(output)

    has_side_effects = tool.needs_approval is not False
    return ImportedTool(
        ToolDefinition(tool.name, tool.description, tool.params_json_schema, side_effects=has_side_effects), run
    )


def _plain_value(output: Any) -> Any:
    if isinstance(output, list):
        return [_plain_value(item) for item in cast("list[Any]", output)]
    if isinstance(output, ToolOutputText):
        return output.text
    if isinstance(output, ToolOutputImage | ToolOutputFileContent):
        raise ToolError("the tool returned a file; only text and JSON are supported")
    return output


class FerruleProvider(ModelProvider):
    """A provider for `RunConfig(model_provider=...)`. A model name is a string for `ferrule.load_engine`.

    `default` is used if no model is named.
    """

    def __init__(self, default: Engine | str) -> None:
        self._default = FerruleModel(default)
        self._models: dict[str, FerruleModel] = {}

    def get_model(self, model_name: str | None) -> Model:
        if model_name is None:
            return self._default
        if model_name not in self._models:
            self._models[model_name] = FerruleModel(model_name)
        return self._models[model_name]

    async def aclose(self) -> None:
        for model in (self._default, *self._models.values()):
            await model.close()


class FerruleModel(Model):
    """A Ferrule engine as a model, from an `Engine` or a string for `ferrule.load_engine`.

    `tool_choice_policy` changes the choice "auto": "required_first_hop" makes a small model call a tool before it
    answers. From `ModelSettings.extra_args` it reads `seed`, `stop`, `top_k` and `tool_choice_policy`.

    Example:
        agent = Agent(name="weather", model=FerruleModel("llama:model.gguf"))
    """

    def __init__(
        self, engine: Engine | str, *, name: str = "", tool_choice_policy: ChoicePolicy | str = ChoicePolicy.AUTO
    ) -> None:
        self.engine = engine_of(engine)
        self._policy = ChoicePolicy(tool_choice_policy)
        self.model = name or self.engine.traits.name

    async def close(self) -> None:
        await self.engine.close()

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        error = request.error
        if not isinstance(error, FerruleError):
            return None
        is_timeout = isinstance(error, EngineTimeoutError)
        normalized = ModelRetryNormalizedError(
            status_code=error.status, error_code=error.code, message=error.message, is_timeout=is_timeout
        )
        return ModelRetryAdvice(suggested=error.retryable, reason=error.message, normalized=normalized)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """The final response of `stream_response`, which takes the same arguments."""
        async with aclosing(self.stream_response(*args, **kwargs)) as events:
            (completed,) = [event.response async for event in events if isinstance(event, wire.ResponseCompletedEvent)]
        return ModelResponse(output=completed.output, usage=_their_usage(completed.usage), response_id=None)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> AsyncGenerator[TResponseStreamEvent]:
        extra_fields = self._extra_fields(previous_response_id, conversation_id, prompt)
        with generation_span(model=self.model, disabled=tracing.is_disabled()) as span, _framework_errors():
            request = _request(system_instructions, input, model_settings, tools, output_schema, handoffs, extra_fields)
            encoder = EventEncoder(id=FAKE_RESPONSES_ID, model=self.model, created=int(time.time()), request=request)
            fold = ReplyFold()
            async with aclosing(reply_events(self.engine, request)) as events:
                async for event in events:
                    fold.add(event)
                    for body in encoder.feed(event):
                        if body["type"] in _FINAL_EVENTS:
                            # Before the final event, because the runner then runs the calls.
                            _require_complete(fold.reply())
                        if not _is_incomplete_call(body):
                            yield _event(
                                body, _receipts(fold) if body["type"] in _EVENTS_WITH_RECEIPTS else {}, self.model
                            )
            reply = fold.reply()
            _require_complete(reply)
            span.span_data.usage = _usage_fields(reply.usage)

    def _extra_fields(self, response: str | None, conversation: str | None, prompt: Any) -> dict[str, Any]:
        """The policy, and options that are refused if given, because nothing is stored here."""
        unsupported = {"previous_response_id": response, "conversation": conversation, "prompt": prompt}
        return {**unsupported, "tool_choice_policy": self._policy.value}


def _receipts(fold: ReplyFold) -> dict[str, Receipt | None]:
    return {call.id: call.receipt for call in fold.reply().calls}


def _request(
    instructions: str | None,
    input: str | list[TResponseInputItem],
    settings: ModelSettings,
    tools: Iterable[Tool],
    output: AgentOutputSchemaBase | None,
    handoffs: Iterable[Handoff[Any, Any]],
    extra_fields: Mapping[str, Any],
) -> ToolCallRequest:
    unknown = [name for name in _UNSUPPORTED if getattr(settings, name) is not None]
    if unknown:
        raise DefinitionError(f"no engine supports {', '.join(unknown)}", hint="Remove the setting.")
    choice = settings.tool_choice
    if choice is not None and not isinstance(choice, str):
        raise DefinitionError("tool_choice cannot name a tool of a hosted MCP server")
    schema = output.json_schema() if output and not output.is_plain_text() else None
    format = {"type": "json_schema", "name": "final_output", "schema": schema}
    request = read_request(
        {
            **extra_fields,
            "instructions": instructions,
            "input": input,
            "tools": [*map(_tool_body, tools), *map(_handoff_body, handoffs)],
            "tool_choice": choice if choice is None or choice in _MODES else {"type": "function", "name": choice},
            "parallel_tool_calls": settings.parallel_tool_calls,
            "max_output_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "text": {"format": format} if schema is not None else None,
        }
    )
    extra = Field(dict(settings.extra_args or {}), "extra_args")
    policy = read_policy(extra) if extra["tool_choice_policy"].is_given else request.tool_choice_policy
    return replace(request, tool_choice_policy=policy, **read_parameters(extra))


def _tool_body(tool: Tool) -> dict[str, Any]:
    if not isinstance(tool, FunctionTool) or tool.qualified_name != tool.name:
        hint = "Use a function tool without a namespace."
        raise DefinitionError(f"{tool.name!r} is a tool that only OpenAI's models can call", hint=hint)
    function = {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
    return {"type": "function", **function}


def _handoff_body(handoff: Handoff[Any, Any]) -> dict[str, Any]:
    function = {"name": handoff.tool_name, "description": handoff.tool_description}
    return {"type": "function", **function, "parameters": handoff.input_json_schema or None}


def _is_incomplete_call(body: dict[str, Any]) -> bool:
    """Whether the event ends an incomplete call: the runner would treat it as a call."""
    item: dict[str, Any] = body.get("item", {})
    return body["type"] == "response.output_item.done" and (item["type"], item["status"]) == _INCOMPLETE_CALL


def _event(body: dict[str, Any], receipts: Mapping[str, Receipt | None], model: str) -> TResponseStreamEvent:
    """Convert an event body. A reply with truncated text ends like any other; its response says incomplete."""
    kind = "response.completed" if body["type"] in _FINAL_EVENTS else body["type"]
    fields = _with_receipts({**body, "type": kind}, receipts, model)
    return cast("TResponseStreamEvent", _EVENTS[kind].model_validate(fields))


def _with_receipts(body: dict[str, Any], receipts: Mapping[str, Receipt | None], model: str) -> dict[str, Any]:
    """Add receipts as provider data, and the SDK's placeholder for missing ids."""
    fields: dict[str, Any] = {**body, "item_id": FAKE_RESPONSES_ID} if "item_id" in body else body
    if "item" in fields:
        return {**fields, "item": _item(fields["item"], receipts, model)}
    if "response" in fields:
        return {**fields, "response": _with_receipts(fields["response"], receipts, model)}
    if "output" in fields:
        return {**fields, "output": [_item(item, receipts, model) for item in fields["output"]]}
    return fields


def _item(item: dict[str, Any], receipts: Mapping[str, Receipt | None], model: str) -> dict[str, Any]:
    receipt = receipts.get(item.get("call_id", ""))
    receipt_field = {"receipt": receipt.as_dict()} if receipt else {}
    return {**item, "id": FAKE_RESPONSES_ID, "provider_data": {"model": model, **receipt_field}}


def _their_usage(usage: wire.ResponseUsage | None) -> Usage:
    input_tokens, output_tokens = (usage.input_tokens, usage.output_tokens) if usage else (0, 0)
    return Usage(
        requests=1, input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
    )


def _usage_fields(usage: OurUsage | None) -> dict[str, Any] | None:
    return usage and {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}


@contextmanager
def _framework_errors() -> Generator[None]:
    try:
        yield
    except FerruleError as error:
        if error.status >= 500 or error.retryable:
            raise
        raise UserError(f"{error.message} {error.hint}".strip()) from error


def _require_complete(reply: Reply) -> None:
    problem = rejection_reason(reply)
    if problem:
        raise ModelBehaviorError(problem)
