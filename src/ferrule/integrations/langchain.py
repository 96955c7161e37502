"""LangChain: `create_agent(ChatFerrule("llama:model.gguf"), export_tools([my_tool]))`.

A reply with a truncated or rejected call raises `ModelError`, streamed or not. An engine that fails raises the matching
subclass of `ModelError`, so LangChain's retry and fallback middleware works. Receipts and diagnostics are in
`response_metadata["ferrule"]`; reasoning is in `additional_kwargs["reasoning_content"]` and so in `content_blocks`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, TypeAlias, cast

from langchain_core import exceptions as theirs
from langchain_core.language_models import BaseChatModel, LanguageModelInput, ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.output_parsers import PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import BaseTool, Tool, ToolException
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.event import ArgumentsDelta, CallStart, Event, ReasoningDelta, TextDelta, Usage
from ferrule.core.json_text import dumps, loads
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ChoicePolicy, ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.extension import Extension
from ferrule.dialects.field import Field
from ferrule.dialects.sequence import EventSequence as OneAtATime
from ferrule.engines.engine import Engine
from ferrule.engines.sync import iterate, run
from ferrule.errors import (
    DefinitionError,
    EngineError,
    EngineTimeoutError,
    EngineUnavailableError,
    FerruleError,
    ToolError,
    UnsupportedError,
)
from ferrule.integrations.exported_tools import ExportableTools, ExportedTool, wrap_tools, wrap_tools_async
from ferrule.integrations.imported_tools import ImportedTool, ImportedTools
from ferrule.integrations.model import engine_of, rejection_reason
from ferrule.integrations.request import request_of
from ferrule.run.decision import DecideInput
from ferrule.run.journal import Decision
from ferrule.run.loop import deny_all
from ferrule.schema.checker import checker_for
from ferrule.schema.tool_decorator import FunctionTool
from ferrule.sources.source import Source

__all__ = ["ChatFerrule", "FerruleTool", "export_tools", "export_tools_async", "import_tools", "reviewer"]

_Stop: TypeAlias = list[str] | None
_Tool: TypeAlias = dict[str, Any] | type | Callable[..., Any] | BaseTool
"""What `bind_tools` accepts: LangChain's tools, and functions decorated with `ferrule.tool`."""
_SETTINGS = {"temperature", "max_tokens", "top_p", "top_k", "seed", "stop", "parallel_tool_calls", "tool_choice_policy"}
_ROLES = ((SystemMessage, Role.SYSTEM), (HumanMessage, Role.USER), (AIMessage, Role.ASSISTANT))
# The first match counts.
_FAILURES: tuple[tuple[type[FerruleError], type[theirs.ModelError]], ...] = (
    (EngineUnavailableError, theirs.ModelConnectionError),
    (EngineTimeoutError, theirs.ModelTimeoutError),
    (UnsupportedError, theirs.ModelInvalidRequestError),
    (EngineError, theirs.ModelAPIError),
    (FerruleError, theirs.ModelInvalidRequestError),
)


def export_tools(tools: ExportableTools, decide: DecideInput = deny_all) -> list[BaseTool]:
    """Export Ferrule tools to a LangChain agent. `decide` approves each call with side effects; see `reviewer`.

    Example:
        agent = create_agent(model, export_tools([get_weather]))
    """
    return [FerruleTool(tool) for tool in wrap_tools(tools, decide)]


async def export_tools_async(tools: ExportableTools, decide: DecideInput = deny_all) -> list[BaseTool]:
    """Like `export_tools`, in a running event loop. A source with connections is used in this loop."""
    return [FerruleTool(tool) for tool in await wrap_tools_async(tools, decide)]


class FerruleTool(BaseTool):
    """An exported Ferrule tool. Ferrule's executor validates the arguments of every call; LangChain does not.

    An error is returned as a `ToolMessage` with `status="error"`. A success has the `ToolResult` as its `artifact`.
    """

    _exported: ExportedTool

    def __init__(self, exported: ExportedTool) -> None:
        definition = exported.definition
        super().__init__(
            name=definition.name,
            description=definition.description,
            args_schema=definition.parameters,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        self._exported = exported

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # By position, so that no argument's name collides with one of LangChain's, such as run_manager.
        return (tool_input, tool_call_id or ""), {}

    def _run(self, arguments: str | dict[str, Any], call_id: str) -> tuple[str, ToolResult]:
        return _content_and_artifact(self._exported.call_sync(arguments, call_id))

    async def _arun(self, arguments: str | dict[str, Any], call_id: str) -> tuple[str, ToolResult]:
        return _content_and_artifact(await self._exported.call(arguments, call_id))


def _content_and_artifact(result: ToolResult) -> tuple[str, ToolResult]:
    if result.is_error:
        raise ToolException(result.text)
    return result.text, result


async def reviewer(call: ToolCall) -> Decision:
    """Interrupt the graph until it is resumed with a decision on this call. For `export_tools(tools, decide=reviewer)`.

    The request and the decision have the form of `HumanInTheLoopMiddleware(interrupt_mode="per_call")`. The graph needs
    a checkpointer, as for every interrupt.
    """
    from langgraph.types import interrupt

    question = {"type": "tool_approval", "tool_call_id": call.id, "name": call.name, "args": call.arguments}
    question["description"] = f"{call.name} has side effects and needs approval"
    answer = Field(interrupt(question), "the decision")
    match answer["type"].string():
        case "approve":
            return Decision(True)
        case "reject":
            return Decision(False, answer["message"].or_else(Field.string, "") or "the user refused it")
        case "edit" if answer["edited_action"]["name"].or_else(Field.string, call.name) == call.name:
            return Decision(True, arguments=dumps(answer["edited_action"]["args"].object()))
        case kind:
            raise answer.refusal(
                f"{kind!r} is not a decision on {call.name}", "Resume with approve, reject, or edited args."
            )


def import_tools(tools: Iterable[BaseTool], *, id: str = "langchain", side_effects: Iterable[str] = ()) -> Source:
    """Import LangChain tools as a Ferrule source. `side_effects` names the tools with side effects.

    Example:
        talk = ToolConversation(engine, import_tools([search_tool]))
    """
    return ImportedTools(map(_imported_tool, tools), id=id, side_effects=side_effects)


def _imported_tool(tool: BaseTool) -> ImportedTool:
    async def run(arguments: Mapping[str, Any], context: CallContext) -> Any:
        call = {"type": "tool_call", "name": tool.name, "args": dict(arguments), "id": context.call_id}
        try:
            answer: object = await tool.ainvoke(call)
        except ToolException as error:
            raise ToolError(str(error)) from error
        except ValueError as error:
            # A Pydantic error is meant for the caller: its validators may know more than the schema.
            errors_of: Callable[[], list[dict[str, Any]]] | None = getattr(error, "errors", None)
            if errors_of is None:
                raise
            faults = "; ".join(f"{'/'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in errors_of())
            raise ToolError(f"invalid_arguments: {faults}") from error
        if not isinstance(answer, ToolMessage):
            raise ToolError(f"{tool.name} returned a command for a LangGraph graph, which is not supported here")
        if answer.status == "error":
            raise ToolError(answer.text)
        return answer.content

    return ImportedTool(ToolDefinition(tool.name, tool.description, _parameters(tool)), run)


def _parameters(tool: BaseTool) -> dict[str, Any]:
    """The original schema. LangChain's own conversion inlines definitions and so loses recursive schemas."""
    schema = tool.args_schema if isinstance(tool.args_schema, dict) else tool.tool_call_schema
    if isinstance(schema, dict):
        return schema
    if hasattr(schema, "model_json_schema") and not (isinstance(tool, Tool) and tool.args_schema is None):
        return cast("Any", schema).model_json_schema()
    return convert_to_openai_tool(tool)["function"]["parameters"]


class ChatFerrule(BaseChatModel):
    """A Ferrule engine as a LangChain chat model, from an `Engine` or a string for `ferrule.load_engine`.

    The settings apply to every request; the same options of `bind` or `invoke` override them.
    `tool_choice_policy="required_first_hop"` makes an agent call a tool before it answers. `model_name` identifies the
    model in traces and caches.

    Example:
        model = ChatFerrule("llama:model.gguf", temperature=0)
    """

    engine: Engine
    model_name: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: list[str] | None = None
    parallel_tool_calls: bool = True
    tool_choice_policy: ChoicePolicy = ChoicePolicy.AUTO

    def __init__(self, engine: Engine | str, **settings: Any) -> None:
        loaded = engine_of(engine)
        # Without the options in the string: they may include an API key.
        name = engine.partition("?")[0] if isinstance(engine, str) else loaded.traits.name
        fields: dict[str, Any] = {"engine": loaded, "model_name": name, **settings}
        super().__init__(**fields)

    @property
    def _llm_type(self) -> str:
        return "ferrule"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, **self._settings()}

    def _resolve_model_profile(self) -> ModelProfile:
        return ModelProfile(tool_calling=True, tool_choice=True, structured_output=True)

    def bind_tools(
        self, tools: Sequence[_Tool], *, tool_choice: str | bool | dict[str, Any] | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """`tool_choice` is auto, none, any or required, the name of a tool, or a value of OpenAI's API."""
        return self.bind(tools=[_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Constrain the answer to a schema. `method="function_calling"` uses a tool instead."""
        if kwargs.get("method", "json_schema") != "json_schema":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        kind, json_schema = cast("Any", schema), _json_schema(schema)
        # A Pydantic class may validate more than its schema says.
        read = PydanticOutputParser[Any](pydantic_object=kind).parse if is_basemodel_subclass(kind) else loads

        def parse(message: AIMessage) -> Any:
            faults = checker_for(json_schema).faults_of_text(message.text)
            if faults:
                raise theirs.OutputParserException("; ".join(map(str, faults)), llm_output=message.text)
            return read(message.text)

        def with_raw(message: AIMessage) -> dict[str, Any]:
            try:
                return {"raw": message, "parsed": parse(message), "parsing_error": None}
            except theirs.OutputParserException as error:
                return {"raw": message, "parsed": None, "parsing_error": error}

        bound = self.bind(response_format={"type": "json_schema", "json_schema": {"schema": json_schema}})
        return bound | RunnableLambda(with_raw if include_raw else parse)

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[_Tool] | None = None
    ) -> int:
        """Count tokens with the model's own tokenizer, if the engine supports it."""
        offered = [_openai_tool(tool) for tool in tools or ()]
        return run(self.engine.count_tokens(self._request(messages, None, {"tools": offered})))

    def _generate(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return run(self._complete(messages, stop, kwargs))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return await self._complete(messages, stop, kwargs)

    def _stream(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        return iterate(self._chunks(messages, stop, kwargs))

    def _astream(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        return self._chunks(messages, stop, kwargs)

    async def _complete(self, messages: Iterable[BaseMessage], stop: _Stop, options: Mapping[str, Any]) -> ChatResult:
        with _framework_errors():
            reply = await self.engine.generate_with_tools(self._request(messages, stop, options))
        _require_complete(reply)
        calls = [tool_call(name=call.name, args=call.arguments, id=call.id) for call in reply.calls]
        extra: dict[str, Any] = {"reasoning_content": reply.reasoning} if reply.reasoning else {}
        message = AIMessage(reply.text, tool_calls=calls, additional_kwargs=extra, **self._metadata_of(reply))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _chunks(
        self, messages: Iterable[BaseMessage], stop: _Stop, options: Mapping[str, Any]
    ) -> AsyncGenerator[ChatGenerationChunk, None]:
        fold, sequence = ReplyFold(), OneAtATime()
        with _framework_errors():
            async with aclosing(self.engine.stream(self._request(messages, stop, options))) as events:
                async for event in events:
                    fold.add(event)
                    for step in sequence.feed(event):
                        chunk = _chunk(step)
                        if chunk is not None:
                            yield ChatGenerationChunk(message=chunk)
        reply = fold.reply()
        _require_complete(reply)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", **self._metadata_of(reply)))

    def _metadata_of(self, reply: Reply) -> dict[str, Any]:
        metadata = {"finish_reason": reply.finish_reason.value, "model_name": self.model_name}
        usage = reply.usage or Usage()
        counts = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
        return {
            "usage_metadata": {**counts, "total_tokens": sum(counts.values())} if reply.usage else None,
            "response_metadata": {**metadata, **Extension.of(reply).as_field()},
        }

    def _settings(self) -> dict[str, Any]:
        return self.model_dump(include=_SETTINGS, exclude_none=True)

    def _request(self, messages: Iterable[BaseMessage], stop: _Stop, options: Mapping[str, Any]) -> ToolCallRequest:
        present = {name: value for name, value in options.items() if value is not None}
        return request_of(_our_messages(messages), {**self._settings(), **present, **({"stop": stop} if stop else {})})


def _openai_tool(tool: _Tool) -> dict[str, Any]:
    if isinstance(tool, FunctionTool):
        return tool.definition.as_function()
    if not isinstance(tool, BaseTool):
        return convert_to_openai_tool(tool)
    function = {"name": tool.name, "description": tool.description, "parameters": _parameters(tool)}
    return {"type": "function", "function": function}


def _json_schema(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return schema.model_json_schema() if is_basemodel_subclass(schema) else convert_to_json_schema(schema)
    as_dict = cast("dict[str, Any]", schema)
    return as_dict if "properties" in as_dict else convert_to_json_schema(as_dict)


def _our_messages(messages: Iterable[BaseMessage]) -> tuple[ChatMessage, ...]:
    names: dict[str, str] = {}
    converted: list[ChatMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            name = message.name or names.get(message.tool_call_id, "")
            text = "".join(part.text for part in _parts(message) if isinstance(part, Text))
            converted.append(ChatMessage.tool(message.tool_call_id, text, name, is_error=message.status == "error"))
            continue
        role = next((role for kind, role in _ROLES if isinstance(message, kind)), None)
        if role is None:
            problem = f"a message of type {message.type!r} is not supported"
            raise DefinitionError(problem, hint="Send a system, human, ai or tool message.")
        converted.append(ChatMessage(role, tuple(_parts(message))))
        names.update({call.id: call.name for call in converted[-1].tool_calls})
    return tuple(converted)


def _parts(message: BaseMessage) -> Iterator[Part]:
    for block in cast("list[dict[str, Any]]", message.content_blocks):
        match block:
            case {"type": "text", "text": str(text)}:
                yield Text(text)
            case {"type": "reasoning"}:
                yield Reasoning(block.get("reasoning", ""))
            case {"type": "tool_call", "name": name, "args": arguments, "id": id}:
                yield ToolCall.of(name, arguments, id)
            case {"type": "invalid_tool_call"}:
                pass
            case _:
                problem = f"a block of type {block.get('type')!r} is not supported"
                raise DefinitionError(problem, hint="Send text; images, audio and files are not supported.")


def _chunk(event: Event) -> AIMessageChunk | None:
    match event:
        case TextDelta(text):
            return AIMessageChunk(content=text)
        case ReasoningDelta(text) if text:
            return AIMessageChunk(content="", additional_kwargs={"reasoning_content": text})
        case CallStart(index, id, name):
            piece = tool_call_chunk(index=index, id=id, name=name, args="")
        case ArgumentsDelta(index, json):
            piece = tool_call_chunk(index=index, args=json)
        case _:
            return None
    return AIMessageChunk(content="", tool_call_chunks=[piece])


def _require_complete(reply: Reply) -> None:
    problem = rejection_reason(reply)
    if problem:
        raise theirs.ModelError(problem)


@contextmanager
def _framework_errors() -> Generator[None]:
    try:
        yield
    except FerruleError as error:
        kind = next(kind for ours, kind in _FAILURES if isinstance(error, ours))
        if error.code == "context_length_exceeded":
            kind = theirs.ContextOverflowError
        raise kind(f"{error.message} {error.hint}".strip()) from error
