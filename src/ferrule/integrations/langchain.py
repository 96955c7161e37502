"""LangChain: `create_agent(ChatFerrule("llama:model.gguf"), lend([my_tool]))`. The one owner of langchain_core.

A reply with a call that was cut off or refused raises `ModelError`, streamed or not, and an engine that fails raises
the `ModelError` of its kind; LangChain's middlewares for retries and fallbacks see both. Receipts and diagnostics are
in `response_metadata["ferrule"]`, reasoning is in `additional_kwargs["reasoning_content"]` and so in `content_blocks`.
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
from ferrule.core.choice import ChoicePolicy
from ferrule.core.context import CallContext
from ferrule.core.event import ArgumentsDelta, CallStart, Event, ReasoningDelta, TextDelta, Usage
from ferrule.core.json_text import dumps, loads
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.reply import Folding, Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.extension import Extension
from ferrule.dialects.field import Field
from ferrule.dialects.sequence import Sequence as OneAtATime
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
from ferrule.integrations.exported_tools import Lendable, LentTool, lend_now
from ferrule.integrations.exported_tools import lend as lend_in_loop
from ferrule.integrations.imported_tools import Borrowed, BorrowedTool
from ferrule.integrations.model import engine_of, why_unfit
from ferrule.integrations.request import request_of
from ferrule.run.journal import Decision
from ferrule.run.loop import Decide, nobody
from ferrule.schema.checker import checker_for
from ferrule.schema.tool_decorator import FunctionTool
from ferrule.sources.source import Source

_Stop: TypeAlias = list[str] | None
_Tool: TypeAlias = dict[str, Any] | type | Callable[..., Any] | BaseTool
"""What may be bound: theirs, and functions of ours, which can be called."""
_SETTINGS = {"temperature", "max_tokens", "top_p", "top_k", "seed", "stop", "parallel_tool_calls", "tool_choice_policy"}
_ROLES = ((SystemMessage, Role.SYSTEM), (HumanMessage, Role.USER), (AIMessage, Role.ASSISTANT))
# The first that fits counts.
_FAILURES: tuple[tuple[type[FerruleError], type[theirs.ModelError]], ...] = (
    (EngineUnavailableError, theirs.ModelConnectionError),
    (EngineTimeoutError, theirs.ModelTimeoutError),
    (UnsupportedError, theirs.ModelInvalidRequestError),
    (EngineError, theirs.ModelAPIError),
    (FerruleError, theirs.ModelInvalidRequestError),
)


def lend(tools: Lendable, decide: Decide = nobody) -> list[BaseTool]:
    """Our tools for an agent of theirs. `decide` is asked before one that changes the world runs; see `reviewer`."""
    return [FerruleTool(lent) for lent in lend_now(tools, decide)]


async def alend(tools: Lendable, decide: Decide = nobody) -> list[BaseTool]:
    """The same in a loop; a source with connections stays in this one."""
    return [FerruleTool(lent) for lent in await lend_in_loop(tools, decide)]


class FerruleTool(BaseTool):
    """A tool of ours. LangChain does not check arguments against a JSON Schema: our executor does, for every call.

    What goes wrong comes back as a `ToolMessage` with `status="error"`, what went well with our result as `artifact`.
    """

    _lent: LentTool

    def __init__(self, lent: LentTool) -> None:
        tool = lent.definition
        super().__init__(
            name=tool.name,
            description=tool.description,
            args_schema=tool.parameters,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        self._lent = lent

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # By position, so that no argument's name meets one of theirs, such as run_manager.
        return (tool_input, tool_call_id or ""), {}

    def _run(self, arguments: str | dict[str, Any], call_id: str) -> tuple[str, ToolResult]:
        return _told(self._lent.call_now(arguments, call_id))

    async def _arun(self, arguments: str | dict[str, Any], call_id: str) -> tuple[str, ToolResult]:
        return _told(await self._lent.call(arguments, call_id))


def _told(result: ToolResult) -> tuple[str, ToolResult]:
    if result.is_error:
        raise ToolException(result.text)
    return result.text, result


async def reviewer(call: ToolCall) -> Decision:
    """For `lend(tools, decide=reviewer)`: stops the graph until it is resumed with a person's word on this very call.

    What the person is shown and answers with is that of `HumanInTheLoopMiddleware(interrupt_mode="per_call")`. The
    graph needs a checkpointer, as for every interrupt.
    """
    from langgraph.types import interrupt

    asked = {"type": "tool_approval", "tool_call_id": call.id, "name": call.name, "args": call.arguments}
    asked["description"] = f"{call.name} changes the world and needs leave"
    answer = Field(interrupt(asked), "the decision")
    match answer["type"].string():
        case "approve":
            return Decision(True)
        case "reject":
            return Decision(False, answer["message"].or_else(Field.string, "") or "a person refused it")
        case "edit" if answer["edited_action"]["name"].or_else(Field.string, call.name) == call.name:
            return Decision(True, arguments=dumps(answer["edited_action"]["args"].object()))
        case kind:
            raise answer.refusal(f"{kind!r} is not one for {call.name}", "Resume with approve, reject, or edited args.")


def borrow(tools: Iterable[BaseTool], *, id: str = "langchain", side_effects: Iterable[str] = ()) -> Source:
    """Their tools as a source of ours. `side_effects` names those that change the world: theirs do not say."""
    return Borrowed(map(_borrowed, tools), id=id, side_effects=side_effects)


def _borrowed(tool: BaseTool) -> BorrowedTool:
    async def ran(arguments: Mapping[str, Any], context: CallContext) -> Any:
        call = {"type": "tool_call", "name": tool.name, "args": dict(arguments), "id": context.call_id}
        try:
            answer: object = await tool.ainvoke(call)
        except ToolException as error:
            raise ToolError(str(error)) from error
        except ValueError as error:
            # Pydantic's, and meant for whoever gave the arguments; it knows validators that no schema says.
            found: Callable[[], list[dict[str, Any]]] | None = getattr(error, "errors", None)
            if found is None:
                raise
            faults = "; ".join(f"{'/'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in found())
            raise ToolError(f"invalid_arguments: {faults}") from error
        if not isinstance(answer, ToolMessage):
            raise ToolError(f"{tool.name} answered with something that only a graph can act on")
        if answer.status == "error":
            raise ToolError(answer.text)
        return answer.content

    return BorrowedTool(ToolDefinition(tool.name, tool.description, _parameters(tool)), ran)


def _parameters(tool: BaseTool) -> dict[str, Any]:
    """The schema as it is: their own conversion takes definitions out, and with them what is recursive."""
    held = tool.args_schema if isinstance(tool.args_schema, dict) else tool.tool_call_schema
    if isinstance(held, dict):
        return held
    if hasattr(held, "model_json_schema") and not (isinstance(tool, Tool) and tool.args_schema is None):
        return cast("Any", held).model_json_schema()
    return convert_to_openai_tool(tool)["function"]["parameters"]


class ChatFerrule(BaseChatModel):
    """An engine as a chat model: `ChatFerrule(engine)`, or a string that `ferrule.load_engine` reads.

    What stands here goes with every request; the same words given to `bind` or `invoke` count before it.
    `tool_choice_policy="required_first_hop"` makes an agent call a tool before it answers. `model_name` is what traces
    and caches know the model by.
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
        used = engine_of(engine)
        # Without the options of a string: a key may be among them.
        name = engine.partition("?")[0] if isinstance(engine, str) else used.traits.name
        given: dict[str, Any] = {"engine": used, "model_name": name, **settings}
        super().__init__(**given)

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
        """`tool_choice`: auto, none, any or required, the name of a tool, or what OpenAI's API takes."""
        return self.bind(tools=[_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """By `response_schema`: the engine can write nothing else. `method="function_calling"` uses a tool instead."""
        if kwargs.get("method", "json_schema") != "json_schema":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        kind, asked = cast("Any", schema), _json_schema(schema)
        # A class of theirs may know more than its schema says.
        reads = PydanticOutputParser[Any](pydantic_object=kind).parse if is_basemodel_subclass(kind) else loads

        def parsed(message: AIMessage) -> Any:
            faults = checker_for(asked).faults_of_text(message.text)
            if faults:
                raise theirs.OutputParserException("; ".join(map(str, faults)), llm_output=message.text)
            return reads(message.text)

        def with_raw(message: AIMessage) -> dict[str, Any]:
            try:
                return {"raw": message, "parsed": parsed(message), "parsing_error": None}
            except theirs.OutputParserException as error:
                return {"raw": message, "parsed": None, "parsing_error": error}

        bound = self.bind(response_format={"type": "json_schema", "json_schema": {"schema": asked}})
        return bound | RunnableLambda(with_raw if include_raw else parsed)

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[_Tool] | None = None
    ) -> int:
        """By the model's own tokenizer, where the engine can."""
        offered = [_openai_tool(tool) for tool in tools or ()]
        return run(self.engine.count_tokens(self._request(messages, None, {"tools": offered})))

    def _generate(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return run(self._whole(messages, stop, kwargs))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return await self._whole(messages, stop, kwargs)

    def _stream(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        return iterate(self._chunks(messages, stop, kwargs))

    def _astream(
        self, messages: list[BaseMessage], stop: _Stop = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        return self._chunks(messages, stop, kwargs)

    async def _whole(self, messages: Iterable[BaseMessage], stop: _Stop, given: Mapping[str, Any]) -> ChatResult:
        with _told_as_theirs():
            reply = await self.engine.generate_with_tools(self._request(messages, stop, given))
        _check_fit(reply)
        calls = [tool_call(name=call.name, args=call.arguments, id=call.id) for call in reply.calls]
        thought: dict[str, Any] = {"reasoning_content": reply.reasoning} if reply.reasoning else {}
        message = AIMessage(reply.text, tool_calls=calls, additional_kwargs=thought, **self._ending(reply))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _chunks(
        self, messages: Iterable[BaseMessage], stop: _Stop, given: Mapping[str, Any]
    ) -> AsyncGenerator[ChatGenerationChunk, None]:
        folding, sequence = Folding(), OneAtATime()
        with _told_as_theirs():
            async with aclosing(self.engine.stream(self._request(messages, stop, given))) as events:
                async for event in events:
                    folding.add(event)
                    for step in sequence.feed(event):
                        chunk = _chunk(step)
                        if chunk is not None:
                            yield ChatGenerationChunk(message=chunk)
        reply = folding.reply()
        _check_fit(reply)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", **self._ending(reply)))

    def _ending(self, reply: Reply) -> dict[str, Any]:
        told = {"finish_reason": reply.finish_reason.value, "model_name": self.model_name}
        used = reply.usage or Usage()
        counts = {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens}
        return {
            "usage_metadata": {**counts, "total_tokens": sum(counts.values())} if reply.usage else None,
            "response_metadata": {**told, **Extension.of(reply).as_field()},
        }

    def _settings(self) -> dict[str, Any]:
        return self.model_dump(include=_SETTINGS, exclude_none=True)

    def _request(self, messages: Iterable[BaseMessage], stop: _Stop, given: Mapping[str, Any]) -> ToolCallRequest:
        held = {name: value for name, value in given.items() if value is not None}
        return request_of(_our_messages(messages), {**self._settings(), **held, **({"stop": stop} if stop else {})})


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
    held = cast("dict[str, Any]", schema)
    return held if "properties" in held else convert_to_json_schema(held)


def _our_messages(messages: Iterable[BaseMessage]) -> tuple[ChatMessage, ...]:
    names: dict[str, str] = {}
    ours: list[ChatMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            name = message.name or names.get(message.tool_call_id, "")
            text = "".join(part.text for part in _parts(message) if isinstance(part, Text))
            ours.append(ChatMessage.tool(message.tool_call_id, text, name, is_error=message.status == "error"))
            continue
        role = next((role for kind, role in _ROLES if isinstance(message, kind)), None)
        if role is None:
            told = f"a message of type {message.type!r} is not taken"
            raise DefinitionError(told, hint="Send a system, human, ai or tool message.")
        ours.append(ChatMessage(role, tuple(_parts(message))))
        names.update({call.id: call.name for call in ours[-1].tool_calls})
    return tuple(ours)


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
                told = f"a block of type {block.get('type')!r} is not taken"
                raise DefinitionError(told, hint="Send text; images, audio and files are not.")


def _chunk(event: Event) -> AIMessageChunk | None:
    match event:
        case TextDelta(text):
            return AIMessageChunk(content=text)
        case ReasoningDelta(text):
            return AIMessageChunk(content="", additional_kwargs={"reasoning_content": text})
        case CallStart(index, id, name):
            piece = tool_call_chunk(index=index, id=id, name=name, args="")
        case ArgumentsDelta(index, json):
            piece = tool_call_chunk(index=index, args=json)
        case _:
            return None
    return AIMessageChunk(content="", tool_call_chunks=[piece])


def _check_fit(reply: Reply) -> None:
    words = why_unfit(reply)
    if words:
        raise theirs.ModelError(words)


@contextmanager
def _told_as_theirs() -> Generator[None]:
    try:
        yield
    except FerruleError as error:
        kind = next(kind for ours, kind in _FAILURES if isinstance(error, ours))
        if error.code == "context_length_exceeded":
            kind = theirs.ContextOverflowError
        raise kind(f"{error.message} {error.hint}".strip()) from error
