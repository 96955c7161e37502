"""CrewAI: `Agent(..., llm=FerruleLLM("llama:model.gguf"), tools=export_tools([my_tool]))`.

A reply with a truncated or rejected call raises `RuntimeError`, and so does an engine that fails (`TimeoutError` after
a timeout, `ValueError` for a request that is not supported). The agent retries its task up to its `max_retry_limit`,
and then the crew fails. CrewAI keeps neither text nor reasoning beside a call.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from types import TracebackType
from typing import Any, cast

from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.events.types.llm_events import LLMCallType
from crewai.hooks.dispatch import HookAborted
from crewai.llms.base_llm import BaseLLM, LLMCallBlockedError, llm_call_context
from crewai.task import Task
from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from crewai.utilities.exceptions.context_window_exceeding_exception import LLMContextLengthExceededError
from crewai.utilities.string_utils import sanitize_tool_name
from crewai.utilities.types import LLMMessage

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.event import ArgumentsDelta, CallStart, ReasoningDelta, TextDelta
from ferrule.core.json_schema import SchemaDict
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.openai_chat.request_decoder import read_request
from ferrule.dialects.sequence import EventSequence
from ferrule.engines.engine import Engine
from ferrule.engines.sync import iterate, run
from ferrule.errors import DefinitionError, EngineTimeoutError, FerruleError, ToolError, UnsupportedError
from ferrule.integrations.exported_tools import ExportableTools, ExportedTool, wrap_tools, wrap_tools_async
from ferrule.integrations.imported_tools import ImportedTool, ImportedTools
from ferrule.integrations.model import engine_of, rejection_reason, reply_events
from ferrule.run.decision import DecideInput
from ferrule.run.loop import deny_all
from ferrule.sources.source import Source

__all__ = ["FerruleLLM", "FerruleTool", "export_tools", "export_tools_async", "import_tools"]

_SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "n")
_OPTIONS = ("tool_choice", "tool_choice_policy", "parallel_tool_calls", "top_k")
_UNSUPPORTED = ("frequency_penalty", "presence_penalty")
_Tools = list[dict[str, BaseTool]] | None


def export_tools(tools: ExportableTools, decide: DecideInput = deny_all) -> list[BaseTool]:
    """Export Ferrule tools to a CrewAI agent. `decide` approves each call of a tool with side effects.

    Example:
        agent = Agent(..., tools=export_tools([get_weather]))
    """
    return [FerruleTool(tool) for tool in wrap_tools(tools, decide)]


async def export_tools_async(tools: ExportableTools, decide: DecideInput = deny_all) -> list[BaseTool]:
    """Like `export_tools`, in a running event loop. A source with connections is used in this loop, so run the crew in
    another thread.
    """
    return [FerruleTool(tool) for tool in await wrap_tools_async(tools, decide)]


def _never_cache(arguments: Any = None, result: Any = None) -> bool:
    """Disable CrewAI's cache: a cached answer would skip the side effects of a repeated call."""
    return False


class FerruleTool(BaseTool):
    """An exported Ferrule tool. Errors are returned as a `ToolFailure`."""

    _exported: ExportedTool

    def __init__(self, exported: ExportedTool) -> None:
        definition = exported.definition
        super().__init__(
            name=definition.name,
            description=definition.description,
            args_schema=_arguments_of(definition.parameters),
            cache_function=_never_cache,
        )
        self._exported = exported

    @property
    def definition(self) -> ToolDefinition:
        return self._exported.definition

    def _run(self, **arguments: Any) -> str | ToolFailure:
        return _tool_output(self._exported.call_sync(self._without_nulls(arguments)))

    async def _arun(self, **arguments: Any) -> str | ToolFailure:
        return _tool_output(await self._exported.call(self._without_nulls(arguments)))

    def _without_nulls(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        needed = self.definition.required
        return {name: value for name, value in arguments.items() if value is not None or name in needed}


def _tool_output(result: ToolResult) -> str | ToolFailure:
    if not result.is_error:
        return result.text
    is_invalid_input = result.text.startswith("invalid_arguments")
    reason = ToolFailureReason.INVALID_INPUT if is_invalid_input else ToolFailureReason.TOOL_REPORTED
    return ToolFailure(message=result.text, reason=reason)


def _arguments_of(parameters: SchemaDict) -> Any:
    """A Pydantic model class with our schema that validates nothing: the executor validates the arguments.

    CrewAI makes every property required. So an optional property may be null here, which counts as left out.
    """
    from pydantic import BaseModel, ConfigDict

    schema_of_arguments = deepcopy(parameters)
    for name, schema in schema_of_arguments.get("properties", {}).items():
        if name not in schema_of_arguments.get("required", ()):
            schema_of_arguments["properties"][name] = {"anyOf": [schema, {"type": "null"}]}

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            return deepcopy(schema_of_arguments)

    return Arguments


def import_tools(tools: Iterable[BaseTool], *, side_effects: Iterable[str] = (), id: str = "crewai") -> Source:
    """Import CrewAI tools as a Ferrule source, under the names that CrewAI shows to models.

    CrewAI does not say which tools have side effects: name those in `side_effects`.

    Example:
        talk = ToolConversation(engine, import_tools([FileWriterTool()], side_effects=["file_writer_tool"]))
    """
    return ImportedTools([_imported_tool(tool) for tool in tools], id=id, side_effects=side_effects)


def _imported_tool(tool: BaseTool) -> ImportedTool:
    is_async = (
        inspect.iscoroutinefunction(cast("Tool[..., Any]", tool).func)
        if isinstance(tool, Tool)
        else type(tool)._arun is not BaseTool._arun  # pyright: ignore[reportPrivateUsage]  # nothing else tells
    )

    # CrewAI's decorated tools are generic over types that are not known here.
    untyped = cast("Any", tool)

    async def run(arguments: Mapping[str, Any], context: CallContext) -> Any:
        return _imported_result(await untyped.arun(**arguments))

    def run_in_thread(arguments: Mapping[str, Any], context: CallContext) -> Any:
        return _imported_result(untyped.run(**arguments))

    name = sanitize_tool_name(tool.name)
    definition = ToolDefinition(name, tool.description, tool.args_schema.model_json_schema())
    return ImportedTool(definition, run) if is_async else ImportedTool(definition, run_in_thread=run_in_thread)


def _imported_result(result: Any) -> Any:
    if isinstance(result, ToolFailure):
        raise ToolError(result.as_agent_message())
    return result


class FerruleLLM(BaseLLM):
    """A Ferrule engine as a CrewAI model, from an `Engine` or a string for `ferrule.load_engine`. The caller closes it.

    `temperature`, `top_p`, `max_tokens`, `seed`, `stop` and `stream` are CrewAI's own options. It also reads
    `tool_choice`, `parallel_tool_calls`, `top_k` and `tool_choice_policy`. The engine always runs in Ferrule's own
    event loop, however CrewAI calls it.
    """

    llm_type: str = "ferrule"
    context_window: int | None = None
    _engine: Engine

    def __init__(self, engine: Engine | str, *, name: str = "", **options: Any) -> None:
        loaded = engine_of(engine)
        super().__init__(model=name or loaded.traits.name, provider="ferrule", **options)
        self._engine = loaded
        unknown = [name for name in self.additional_params if name not in _OPTIONS]
        unknown += [name for name in _UNSUPPORTED if getattr(self, name) is not None]
        if unknown:
            raise DefinitionError(
                f"unknown options: {', '.join(unknown)}", hint=f"Besides CrewAI's own there are {', '.join(_OPTIONS)}."
            )

    @property
    def engine(self) -> Engine:
        return self._engine

    def supports_function_calling(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return self.context_window or super().get_context_window_size()

    def get_input_tokens_count(
        self, messages: str | list[LLMMessage], tools: _Tools = None, response_model: type[Any] | None = None
    ) -> int:
        try:
            return run(self._engine.count_tokens(self._request(self._format_messages(messages), tools, None, ())))
        except UnsupportedError:
            return super().get_input_tokens_count(messages, tools, response_model)

    def call(
        self,
        messages: str | list[LLMMessage],
        tools: _Tools = None,
        callbacks: list[Any] | None = None,
        available_functions: dict[str, Any] | None = None,
        from_task: Task | None = None,
        from_agent: BaseAgent | None = None,
        response_model: type[Any] | None = None,
    ) -> Any:
        with llm_call_context():
            self._emit_call_started_event(messages, tools, callbacks, available_functions, from_task, from_agent)
            with _FailureEvents(self, from_task, from_agent), _framework_errors():
                formatted = self._format_messages(messages)
                self._invoke_before_llm_call_hooks(formatted, from_agent)
                agent_tools = [*(getattr(from_agent, "tools", None) or ()), *(getattr(from_task, "tools", None) or ())]
                reply = self._reply(self._request(formatted, tools, response_model, agent_tools), from_task, from_agent)
                answer = self._answer(reply, formatted, available_functions, from_task, from_agent)
                kind = LLMCallType.TOOL_CALL if reply.calls else LLMCallType.LLM_CALL
                usage, finish = _usage_of(reply), reply.finish_reason.value
                self._emit_call_completed_event(answer, kind, from_task, from_agent, formatted, usage, finish)
                return answer if reply.calls else self._validate_structured_output(answer, response_model)

    async def acall(
        self,
        messages: str | list[LLMMessage],
        tools: _Tools = None,
        callbacks: list[Any] | None = None,
        available_functions: dict[str, Any] | None = None,
        from_task: Task | None = None,
        from_agent: BaseAgent | None = None,
        response_model: type[Any] | None = None,
    ) -> Any:
        context = (from_task, from_agent, response_model)
        return await asyncio.to_thread(self.call, messages, tools, callbacks, available_functions, *context)

    def _request(
        self, messages: list[LLMMessage], tools: _Tools, response_model: type[Any] | None, agent_tools: Iterable[Any]
    ) -> ToolCallRequest:
        schema = response_model and {"json_schema": {"schema": response_model.model_json_schema()}}
        body: dict[str, Any] = {
            **self.additional_params,
            **{name: getattr(self, name) for name in _SETTINGS},
            "stop": self.stop_sequences or None,
            "messages": messages,
            "tools": tools or None,
            "response_format": schema and {"type": "json_schema", **schema},
        }
        if not tools:
            body = {**body, "tool_choice": None, "tool_choice_policy": None}
        request = read_request(body)
        # The original schemas, before CrewAI made them strict.
        definitions = {
            sanitize_tool_name(tool.name): tool.definition for tool in agent_tools if isinstance(tool, FerruleTool)
        }
        offered = [replace(definitions.get(tool.name, tool), name=tool.name) for tool in request.tools]
        return replace(request, tools=tuple(offered))

    def _reply(self, request: ToolCallRequest, task: Task | None, agent: BaseAgent | None) -> Reply:
        fold, sequence, is_streamed = ReplyFold(), EventSequence(), self._effective_stream()
        calls: dict[int, FunctionCall] = {}
        ids: dict[int, str] = {}
        for event in iterate(reply_events(self._engine, request)):
            fold.add(event)
            for plain in sequence.feed(event) if is_streamed else ():
                match plain:
                    case TextDelta(text):
                        self._emit_stream_chunk_event(text, task, agent, call_type=LLMCallType.LLM_CALL)
                    case ReasoningDelta(text) if text:
                        self._emit_thinking_chunk_event(text, task, agent)
                    case CallStart(index, id, name):
                        ids[index], calls[index] = id, FunctionCall(name, "")
                    case ArgumentsDelta(index, json):
                        calls[index] = FunctionCall(calls[index].name, calls[index].arguments + json)
                        tool_call = {**ToolCall(ids[index], calls[index]).as_openai(), "index": index}
                        self._emit_stream_chunk_event(json, task, agent, tool_call, LLMCallType.TOOL_CALL)
                    case _:
                        pass
        reply = fold.reply()
        problem = rejection_reason(reply)
        if problem:
            raise RuntimeError(problem)
        self._track_token_usage_internal(_usage_of(reply) or {})
        return reply

    def _answer(
        self,
        reply: Reply,
        messages: list[LLMMessage],
        functions: dict[str, Any] | None,
        task: Task | None,
        agent: BaseAgent | None,
    ) -> Any:
        """The text, or the calls for the agent to run. If functions are given, the result of the first call."""
        if not reply.calls:
            return self._invoke_after_llm_call_hooks(messages, reply.text, agent)
        if functions:
            first = reply.calls[0]
            return self._handle_tool_execution(first.name, first.arguments, functions, task, agent)
        receipts = [{"ferrule": call.receipt.as_dict()} if call.receipt else {} for call in reply.calls]
        return [{**call.as_openai(), **receipt} for call, receipt in zip(reply.calls, receipts, strict=True)]


def _usage_of(reply: Reply) -> dict[str, Any] | None:
    usage = reply.usage
    if usage is None:
        return None
    counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    return {**counts, "total_tokens": sum(counts.values())}


class _FailureEvents:
    """A context manager that reports exceptions to CrewAI's listeners and lets them propagate."""

    def __init__(self, model: FerruleLLM, task: Task | None, agent: BaseAgent | None) -> None:
        self._model, self._context = model, (task, agent)

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HookAborted | LLMCallBlockedError):
            self._model._emit_call_denied_event(error, *self._context)  # pyright: ignore[reportPrivateUsage]
        elif error is not None:
            self._model._emit_call_failed_event(str(error), *self._context)  # pyright: ignore[reportPrivateUsage]


@contextmanager
def _framework_errors() -> Generator[None]:
    try:
        yield
    except FerruleError as error:
        message = f"{error.message} {error.hint}".strip()
        if error.code == "context_length_exceeded":
            raise LLMContextLengthExceededError(message) from error
        if isinstance(error, EngineTimeoutError):
            raise TimeoutError(message) from error
        raise (RuntimeError if error.status >= 500 else ValueError)(message) from error
