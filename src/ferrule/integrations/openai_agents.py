"""OpenAI's Agents SDK: `Agent(name="a", model=FerruleModel("llama:model.gguf"), tools=lend([my_tool]))`.

A reply with a call that was cut off or refused raises `ModelBehaviorError`, streamed or not. What a request asks for
and no engine does is a `UserError`. An engine that fails raises its own error, with advice for the runner's retries.
Text that was cut off is handed on, as the SDK's chat model does. Receipts are in `provider_data` of a call's item.
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

from ferrule.core.call import ToolCall
from ferrule.core.choice import ChoicePolicy
from ferrule.core.context import CallContext
from ferrule.core.event import Usage as OurUsage
from ferrule.core.json_text import dumps
from ferrule.core.receipt import Receipt
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.choice_policy import read_policy
from ferrule.dialects.field import Field
from ferrule.dialects.openai_chat.parameters import read_parameters
from ferrule.dialects.openai_responses.event_encoder import EventEncoder
from ferrule.dialects.openai_responses.request_decoder import read_request
from ferrule.dialects.result_text import result_text
from ferrule.engines.engine import Engine
from ferrule.errors import DefinitionError, EngineTimeoutError, FerruleError, ToolError
from ferrule.integrations.exported_tools import Lendable, LentTool, lend_now
from ferrule.integrations.exported_tools import lend as lend_in_loop
from ferrule.integrations.imported_tools import Borrowed, BorrowedTool
from ferrule.integrations.model import engine_of, reply_events, why_unfit
from ferrule.run.loop import Decide, nobody
from ferrule.schema.checker import checker_for
from ferrule.sources.source import Source

_MODES = ("auto", "none", "required")
_NOBODY_DOES = ("frequency_penalty", "presence_penalty", "top_logprobs")
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
_BROKEN = ("function_call", "incomplete")
_ENDS = ("response.completed", "response.incomplete")
_WHOLE = ("response.output_item.done", *_ENDS)


def lend(tools: Lendable, decide: Decide = nobody) -> list[Tool]:
    """Our tools for an agent of theirs.

    A tool that changes the world interrupts the run until it is approved there; with `decide`, that is asked instead.
    For a source with connections use `alend`, in the loop that the agent runs in.
    """
    return [_their_tool(tool, asks_itself=decide is not nobody) for tool in lend_now(tools, decide)]


async def alend(tools: Lendable, decide: Decide = nobody) -> list[Tool]:
    """The same, in this loop."""
    return [_their_tool(tool, asks_itself=decide is not nobody) for tool in await lend_in_loop(tools, decide)]


def _their_tool(tool: LentTool, *, asks_itself: bool) -> FunctionTool:
    ours = tool.definition

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        has_leave = context.is_tool_approved(ours.name, context.tool_call_id) is True
        # An error has no field here, so it is said in words; raising would end the whole run.
        return result_text(await tool.call(arguments or "{}", context.tool_call_id, has_leave=has_leave))

    async def waits(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        # Nobody is asked to approve what cannot run.
        return tool.executor.requires_confirmation(ToolCall.of(ours.name)) and checker_for(ours.parameters).fits(
            arguments
        )

    return FunctionTool(
        ours.name,
        ours.description,
        ours.parameters,
        invoke,
        # Strict would rewrite the schema.
        strict_json_schema=False,
        needs_approval=False if asks_itself else waits,
    )


def borrow(
    tools: Iterable[Tool], *, context: Any = None, side_effects: Iterable[str] = (), id: str = "openai-agents"
) -> Source:
    """Their function tools as a source of ours. `context` is what their tools find in theirs.

    A tool that may need approval changes the world here, and so do those named in `side_effects`. One that OpenAI
    runs, or that is guarded or enabled by its agent, cannot be run here and is refused.
    """
    return Borrowed([_borrowed(tool, context) for tool in tools], id=id, side_effects=side_effects)


def _borrowed(tool: Tool, held: Any) -> BorrowedTool:
    if not isinstance(tool, FunctionTool):
        raise DefinitionError(f"{tool.name!r} is run by OpenAI, not here", hint="Borrow function tools.")
    if tool.is_enabled is not True or tool.tool_input_guardrails or tool.tool_output_guardrails:
        told = f"{tool.name!r} is guarded or enabled by its agent, and there is none here"
        raise DefinitionError(told, hint="Borrow the tool without guardrails, and guard it yourself.")

    async def run(arguments: Mapping[str, Any], context: CallContext) -> Any:
        text = dumps(dict(arguments))
        theirs = ToolContext(held, tool_name=tool.name, tool_call_id=context.call_id, tool_arguments=text)
        try:
            given = await invoke_function_tool(function_tool=tool, context=theirs, arguments=text)
        except (ModelBehaviorError, UserError) as told:
            raise ToolError(told.message) from told
        if given == default_tool_error_function(theirs, ValueError()):
            raise ToolError(given)
        return _plain(given)

    changes = tool.needs_approval is not False
    return BorrowedTool(ToolDefinition(tool.name, tool.description, tool.params_json_schema, side_effects=changes), run)


def _plain(given: Any) -> Any:
    if isinstance(given, list):
        return [_plain(item) for item in cast("list[Any]", given)]
    if isinstance(given, ToolOutputText):
        return given.text
    if isinstance(given, ToolOutputImage | ToolOutputFileContent):
        raise ToolError("the tool gave a file, and only text and JSON can be handed on")
    return given


class FerruleProvider(ModelProvider):
    """Models by strings for `ferrule.load_engine`, for `RunConfig(model_provider=...)`; `default` where none is."""

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
    """An engine as a model, from an `Engine` or the string that `ferrule.load_engine` takes.

    `tool_choice_policy` is what becomes of the choice "auto": "required_first_hop" makes a small model call a tool
    before it answers. Of `ModelSettings.extra_args` it reads `seed`, `stop`, `top_k` and another policy.
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
        facts = ModelRetryNormalizedError(
            status_code=error.status, error_code=error.code, message=error.message, is_timeout=is_timeout
        )
        return ModelRetryAdvice(suggested=error.retryable, reason=error.message, normalized=facts)

    async def get_response(self, *asked: Any, **more: Any) -> ModelResponse:
        """The end of what `stream_response` tells, which is asked in the same words."""
        async with aclosing(self.stream_response(*asked, **more)) as events:
            (done,) = [event.response async for event in events if isinstance(event, wire.ResponseCompletedEvent)]
        return ModelResponse(output=done.output, usage=_their_usage(done.usage), response_id=None)

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
        more = self._more(previous_response_id, conversation_id, prompt)
        with generation_span(model=self.model, disabled=tracing.is_disabled()) as span, _told_as_theirs():
            asked = _request(system_instructions, input, model_settings, tools, output_schema, handoffs, more)
            encoder = EventEncoder(id=FAKE_RESPONSES_ID, model=self.model, created=int(time.time()), request=asked)
            folding = Folding()
            async with aclosing(reply_events(self.engine, asked)) as events:
                async for event in events:
                    folding.add(event)
                    for body in encoder.feed(event):
                        if body["type"] in _ENDS:
                            # Before the end, which is the runner's leave to run the calls.
                            _check_fit(folding.reply())
                        if not _is_broken(body):
                            yield _event(body, _receipts(folding) if body["type"] in _WHOLE else {}, self.model)
            reply = folding.reply()
            _check_fit(reply)
            span.span_data.usage = _spent(reply.usage)

    def _more(self, response: str | None, conversation: str | None, prompt: Any) -> dict[str, Any]:
        """The policy, and what is refused where it is given: nothing is kept here."""
        kept = {"previous_response_id": response, "conversation": conversation, "prompt": prompt}
        return {**kept, "tool_choice_policy": self._policy.value}


def _receipts(so_far: Folding) -> dict[str, Receipt | None]:
    return {call.id: call.receipt for call in so_far.reply().calls}


def _request(
    instructions: str | None,
    input: str | list[TResponseInputItem],
    settings: ModelSettings,
    tools: Iterable[Tool],
    output: AgentOutputSchemaBase | None,
    handoffs: Iterable[Handoff[Any, Any]],
    more: Mapping[str, Any],
) -> ToolCallRequest:
    unknown = [name for name in _NOBODY_DOES if getattr(settings, name) is not None]
    if unknown:
        raise DefinitionError(f"no engine has a setting {', '.join(unknown)}", hint="Leave it out.")
    choice = settings.tool_choice
    if choice is not None and not isinstance(choice, str):
        raise DefinitionError("a tool of an MCP server that OpenAI calls cannot be chosen here")
    schema = output.json_schema() if output and not output.is_plain_text() else None
    format = {"type": "json_schema", "name": "final_output", "schema": schema}
    request = read_request(
        {
            **more,
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
        hint = "Lend it as a function tool, without a namespace."
        raise DefinitionError(f"{tool.name!r} is a tool that only OpenAI's models call", hint=hint)
    described = {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
    return {"type": "function", **described}


def _handoff_body(handoff: Handoff[Any, Any]) -> dict[str, Any]:
    described = {"name": handoff.tool_name, "description": handoff.tool_description}
    return {"type": "function", **described, "parameters": handoff.input_json_schema or None}


def _is_broken(body: dict[str, Any]) -> bool:
    """Whether it is the end of a call that is not complete: the runner would tell of that as a call."""
    item: dict[str, Any] = body.get("item", {})
    return body["type"] == "response.output_item.done" and (item["type"], item["status"]) == _BROKEN


def _event(body: dict[str, Any], receipts: Mapping[str, Receipt | None], model: str) -> TResponseStreamEvent:
    """An answer that was cut off in its text ends like any other; its response says that it is incomplete."""
    kind = "response.completed" if body["type"] in _ENDS else body["type"]
    told = _told({**body, "type": kind}, receipts, model)
    return cast("TResponseStreamEvent", _EVENTS[kind].model_validate(told))


def _told(body: dict[str, Any], receipts: Mapping[str, Receipt | None], model: str) -> dict[str, Any]:
    """With receipts where the SDK keeps what is the provider's own, and the id by which it knows that there is none."""
    named: dict[str, Any] = {**body, "item_id": FAKE_RESPONSES_ID} if "item_id" in body else body
    if "item" in named:
        return {**named, "item": _item(named["item"], receipts, model)}
    if "response" in named:
        return {**named, "response": _told(named["response"], receipts, model)}
    if "output" in named:
        return {**named, "output": [_item(item, receipts, model) for item in named["output"]]}
    return named


def _item(item: dict[str, Any], receipts: Mapping[str, Receipt | None], model: str) -> dict[str, Any]:
    receipt = receipts.get(item.get("call_id", ""))
    told = {"receipt": receipt.as_dict()} if receipt else {}
    return {**item, "id": FAKE_RESPONSES_ID, "provider_data": {"model": model, **told}}


def _their_usage(usage: wire.ResponseUsage | None) -> Usage:
    given, written = (usage.input_tokens, usage.output_tokens) if usage else (0, 0)
    return Usage(requests=1, input_tokens=given, output_tokens=written, total_tokens=given + written)


def _spent(usage: OurUsage | None) -> dict[str, Any] | None:
    return usage and {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}


@contextmanager
def _told_as_theirs() -> Generator[None]:
    try:
        yield
    except FerruleError as error:
        if error.status >= 500 or error.retryable:
            raise
        raise UserError(f"{error.message} {error.hint}".strip()) from error


def _check_fit(reply: Reply) -> None:
    words = why_unfit(reply)
    if words:
        raise ModelBehaviorError(words)
