"""CrewAI: `Agent(..., llm=FerruleLLM("llama:model.gguf"), tools=lend([my_tool]))`.

A reply with a call that was cut off or refused raises `RuntimeError`, and so does an engine that fails (`TimeoutError`
where it took too long, `ValueError` where it was asked for what cannot be): the agent tries its task again, as often as
its `max_retry_limit` says, and then the crew fails. CrewAI keeps neither text nor reasoning that stands beside a call.
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
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.openai_chat.request_decoder import read_request
from ferrule.dialects.sequence import Sequence
from ferrule.engines.engine import Engine
from ferrule.engines.sync import iterate, run
from ferrule.errors import DefinitionError, EngineTimeoutError, FerruleError, ToolError, UnsupportedError
from ferrule.integrations.exported_tools import Lendable, LentTool, lend_now
from ferrule.integrations.exported_tools import lend as lend_in_loop
from ferrule.integrations.imported_tools import Borrowed, BorrowedTool
from ferrule.integrations.model import engine_of, reply_events, why_unfit
from ferrule.run.loop import Decide, nobody
from ferrule.sources.source import Source

_SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "n")
_OPTIONS = ("tool_choice", "tool_choice_policy", "parallel_tool_calls", "top_k")
_NOBODY_DOES = ("frequency_penalty", "presence_penalty")
_Tools = list[dict[str, BaseTool]] | None


def lend(tools: Lendable, decide: Decide = nobody) -> list[BaseTool]:
    """Our tools for an agent of theirs. `decide` is asked before one that changes the world runs."""
    return [FerruleTool(lent) for lent in lend_now(tools, decide)]


async def alend(tools: Lendable, decide: Decide = nobody) -> list[BaseTool]:
    """The same in a loop; a source with connections stays in this one, and the crew must run in another thread."""
    return [FerruleTool(lent) for lent in await lend_in_loop(tools, decide)]


def _is_never_kept(arguments: Any = None, result: Any = None) -> bool:
    """CrewAI would answer the same call from its cache, and the world would not change a second time."""
    return False


class FerruleTool(BaseTool):
    """A tool of ours. What goes wrong comes back as a `ToolFailure`."""

    _lent: LentTool

    def __init__(self, lent: LentTool) -> None:
        ours = lent.definition
        super().__init__(
            name=ours.name,
            description=ours.description,
            args_schema=_arguments_of(ours.parameters),
            cache_function=_is_never_kept,
        )
        self._lent = lent

    @property
    def definition(self) -> ToolDefinition:
        return self._lent.definition

    def _run(self, **arguments: Any) -> str | ToolFailure:
        return _told(self._lent.call_now(self._given(arguments)))

    async def _arun(self, **arguments: Any) -> str | ToolFailure:
        return _told(await self._lent.call(self._given(arguments)))

    def _given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        needed = self.definition.required
        return {name: value for name, value in arguments.items() if value is not None or name in needed}


def _told(result: ToolResult) -> str | ToolFailure:
    if not result.is_error:
        return result.text
    is_mendable = result.text.startswith("invalid_arguments")
    reason = ToolFailureReason.INVALID_INPUT if is_mendable else ToolFailureReason.TOOL_REPORTED
    return ToolFailure(message=result.text, reason=reason)


def _arguments_of(parameters: SchemaDict) -> Any:
    """A model class that has our schema and checks nothing: arguments are checked where the tool runs.

    CrewAI makes every property required. Those that are not may be null here instead, which is taken as left out.
    """
    from pydantic import BaseModel, ConfigDict

    offered = deepcopy(parameters)
    for name, schema in offered.get("properties", {}).items():
        if name not in offered.get("required", ()):
            offered["properties"][name] = {"anyOf": [schema, {"type": "null"}]}

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            return deepcopy(offered)

    return Arguments


def borrow(tools: Iterable[BaseTool], *, side_effects: Iterable[str] = (), id: str = "crewai") -> Source:
    """Their tools as a source of ours, by the names that CrewAI tells a model. It does not say which of them change
    the world: name those in `side_effects`.
    """
    return Borrowed([_borrowed(tool) for tool in tools], id=id, side_effects=side_effects)


def _borrowed(tool: BaseTool) -> BorrowedTool:
    is_asynchronous = (
        inspect.iscoroutinefunction(cast("Tool[..., Any]", tool).func)
        if isinstance(tool, Tool)
        else type(tool)._arun is not BaseTool._arun  # pyright: ignore[reportPrivateUsage]  # nothing else tells
    )

    # Their decorator's tools are generic in what nobody here knows.
    held = cast("Any", tool)

    async def ran(arguments: Mapping[str, Any], context: CallContext) -> Any:
        # `run` of an asynchronous tool makes a loop of its own, which a thread is needed for as well.
        given: Any = await (held.arun(**arguments) if is_asynchronous else asyncio.to_thread(held.run, **arguments))
        if isinstance(given, ToolFailure):
            raise ToolError(given.as_agent_message())
        return given

    name = sanitize_tool_name(tool.name)
    return BorrowedTool(ToolDefinition(name, tool.description, tool.args_schema.model_json_schema()), ran)


class FerruleLLM(BaseLLM):
    """An engine as a model, from an `Engine` or a string for `ferrule.load_engine`. The caller closes it.

    `temperature`, `top_p`, `max_tokens`, `seed`, `stop` and `stream` are CrewAI's own. Of other options it reads those
    of OpenAI's chat API: `tool_choice`, `parallel_tool_calls`, `top_k`, and `tool_choice_policy`. The engine is used in
    a loop of ours, whichever way CrewAI calls.
    """

    llm_type: str = "ferrule"
    context_window: int | None = None
    _engine: Engine

    def __init__(self, engine: Engine | str, *, name: str = "", **options: Any) -> None:
        made = engine_of(engine)
        super().__init__(model=name or made.traits.name, provider="ferrule", **options)
        self._engine = made
        strange = [name for name in self.additional_params if name not in _OPTIONS]
        strange += [name for name in _NOBODY_DOES if getattr(self, name) is not None]
        if strange:
            raise DefinitionError(f"there is no option {', '.join(strange)}", hint=f"Beside CrewAI's: {_OPTIONS}.")

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
            with _Failing(self, from_task, from_agent), _told_as_theirs():
                said = self._format_messages(messages)
                self._invoke_before_llm_call_hooks(said, from_agent)
                own = [*(getattr(from_agent, "tools", None) or ()), *(getattr(from_task, "tools", None) or ())]
                reply = self._reply(self._request(said, tools, response_model, own), from_task, from_agent)
                answer = self._answer(reply, said, available_functions, from_task, from_agent)
                kind = LLMCallType.TOOL_CALL if reply.calls else LLMCallType.LLM_CALL
                usage, finish = _spent(reply), reply.finish_reason.value
                self._emit_call_completed_event(answer, kind, from_task, from_agent, said, usage, finish)
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
        self, messages: list[LLMMessage], tools: _Tools, response_model: type[Any] | None, own: Iterable[Any]
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
        asked = read_request(body)
        # The schemas as they were before CrewAI made them strict.
        known = {sanitize_tool_name(tool.name): tool.definition for tool in own if isinstance(tool, FerruleTool)}
        offered = [replace(known.get(tool.name, tool), name=tool.name) for tool in asked.tools]
        return replace(asked, tools=tuple(offered))

    def _reply(self, request: ToolCallRequest, task: Task | None, agent: BaseAgent | None) -> Reply:
        folding, sequence, is_streamed = Folding(), Sequence(), self._effective_stream()
        calls: dict[int, FunctionCall] = {}
        ids: dict[int, str] = {}
        for event in iterate(reply_events(self._engine, request)):
            folding.add(event)
            for plain in sequence.feed(event) if is_streamed else ():
                match plain:
                    case TextDelta(text):
                        self._emit_stream_chunk_event(text, task, agent, call_type=LLMCallType.LLM_CALL)
                    case ReasoningDelta(text):
                        self._emit_thinking_chunk_event(text, task, agent)
                    case CallStart(index, id, name):
                        ids[index], calls[index] = id, FunctionCall(name, "")
                    case ArgumentsDelta(index, json):
                        calls[index] = FunctionCall(calls[index].name, calls[index].arguments + json)
                        told = {**ToolCall(ids[index], calls[index]).as_openai(), "index": index}
                        self._emit_stream_chunk_event(json, task, agent, told, LLMCallType.TOOL_CALL)
                    case _:
                        pass
        reply = folding.reply()
        words = why_unfit(reply)
        if words:
            raise RuntimeError(words)
        self._track_token_usage_internal(_spent(reply) or {})
        return reply

    def _answer(
        self,
        reply: Reply,
        said: list[LLMMessage],
        functions: dict[str, Any] | None,
        task: Task | None,
        agent: BaseAgent | None,
    ) -> Any:
        """Text, or the calls for the agent to run; where functions are given, what came of the first call."""
        if not reply.calls:
            return self._invoke_after_llm_call_hooks(said, reply.text, agent)
        if functions:
            first = reply.calls[0]
            return self._handle_tool_execution(first.name, first.arguments, functions, task, agent)
        receipts = [{"ferrule": call.receipt.as_dict()} if call.receipt else {} for call in reply.calls]
        return [{**call.as_openai(), **receipt} for call, receipt in zip(reply.calls, receipts, strict=True)]


def _spent(reply: Reply) -> dict[str, Any] | None:
    usage = reply.usage
    if usage is None:
        return None
    counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    return {**counts, "total_tokens": sum(counts.values())}


class _Failing:
    """Tells CrewAI's listeners of whatever is raised inside it, and lets it go on."""

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
def _told_as_theirs() -> Generator[None]:
    try:
        yield
    except FerruleError as error:
        words = f"{error.message} {error.hint}".strip()
        if error.code == "context_length_exceeded":
            raise LLMContextLengthExceededError(words) from error
        if isinstance(error, EngineTimeoutError):
            raise TimeoutError(words) from error
        raise (RuntimeError if error.status >= 500 else ValueError)(words) from error
