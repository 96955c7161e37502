"""LlamaIndex: `FunctionAgent(tools=lend([my_tool]), llm=FerruleLLM("llama:model.gguf"))`. The one owner of llama_index.

A reply with a call that was cut off or refused raises `EngineError`, streamed or not; LlamaIndex has no error of its
own for a model that fails, and lets those of its integrations through. Receipts, diagnostics and usage are in
`ChatResponse.raw`, reasoning is a `ThinkingBlock`, and a call that is still forming has its arguments as text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from llama_index.core.base.llms.types import (
    CachePoint,
    ChatResponse,
    CompletionResponse,
    ContentBlock,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.base.llms.types import ChatMessage as TheirMessage
from llama_index.core.bridge.pydantic import Field as Described
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW, DEFAULT_NUM_OUTPUTS
from llama_index.core.llms import callbacks
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.choice import ChoicePolicy
from ferrule.core.context import CallContext
from ferrule.core.event import CallEnd, Diagnostic, Finish, ReasoningDelta, TextDelta
from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.reply import Folding, Reply, ReplyPart
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.extension import Extension
from ferrule.dialects.openai_chat.usage import usage_body
from ferrule.dialects.result_text import result_text
from ferrule.engines.engine import Engine
from ferrule.engines.sync import iterate
from ferrule.errors import DefinitionError, EngineError, ToolError
from ferrule.integrations.exported_tools import Lendable, LentTool, lend_now
from ferrule.integrations.exported_tools import lend as lend_in_loop
from ferrule.integrations.imported_tools import Borrowed, BorrowedTool
from ferrule.integrations.model import engine_of, why_unfit
from ferrule.integrations.request import request_of
from ferrule.run.loop import Decide, nobody
from ferrule.sources.source import Source

_SETTINGS = {"temperature", "max_tokens", "top_p", "top_k", "seed", "stop", "tool_choice_policy"}
_ROLES = {
    MessageRole.SYSTEM: Role.SYSTEM,
    MessageRole.DEVELOPER: Role.SYSTEM,
    MessageRole.USER: Role.USER,
    MessageRole.ASSISTANT: Role.ASSISTANT,
    MessageRole.CHATBOT: Role.ASSISTANT,
    MessageRole.MODEL: Role.ASSISTANT,
    MessageRole.TOOL: Role.TOOL,
    MessageRole.FUNCTION: Role.TOOL,
}
_SILENT = (Diagnostic, CallEnd, Finish)
_Method = TypeVar("_Method", bound=Callable[..., Any])


def lend(tools: Lendable, decide: Decide = nobody) -> list[FunctionTool]:
    """Our tools for an agent of theirs. `decide` is asked before one that changes the world runs."""
    return [FerruleTool(lent) for lent in lend_now(tools, decide)]


async def alend(tools: Lendable, decide: Decide = nobody) -> list[FunctionTool]:
    """The same in a loop; a source with connections stays in this one."""
    return [FerruleTool(lent) for lent in await lend_in_loop(tools, decide)]


class FerruleToolSpec(BaseToolSpec):
    """Our tools where LlamaIndex wants a spec."""

    def __init__(self, tools: Lendable, decide: Decide = nobody) -> None:
        self._tools = {tool.metadata.get_name(): tool for tool in lend(tools, decide)}
        self.spec_functions = [*self._tools]

    def to_tool_list(self, spec_functions: Any = None, func_to_metadata_mapping: Any = None) -> list[FunctionTool]:
        """All of them, or those that `spec_functions` names."""
        return [self._tools[name] for name in spec_functions or self._tools]


@dataclass
class _Metadata(ToolMetadata):
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])

    def get_parameters_dict(self) -> dict[str, Any]:
        # They look into it for properties, also where it has none.
        return self.parameters if "properties" in self.parameters else {**self.parameters, "properties": {}}

    @property
    def fn_schema_str(self) -> str:
        return dumps(self.get_parameters_dict())


class FerruleTool(FunctionTool):
    """A tool of ours. LlamaIndex checks no arguments: our executor does, for every call.

    What goes wrong comes back as a `ToolOutput` with `is_error`, and says so in its text, for that alone reaches the
    model. A tool is not told the id of its call, so that every call has a new one here.
    """

    def __init__(self, lent: LentTool) -> None:
        self._lent = lent
        tool = lent.definition
        super().__init__(self._text, _Metadata(tool.description, tool.name, None, parameters=tool.parameters))

    def _text(self, /, **arguments: Any) -> str:
        return self.call(**arguments).content

    def call(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        return _output(self._lent.call_now(_arguments(args, kwargs)), kwargs)

    async def acall(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        return _output(await self._lent.call(_arguments(args, kwargs)), kwargs)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if args:
        raise ToolError("arguments are given by name")
    return kwargs


def _output(result: ToolResult, arguments: dict[str, Any]) -> ToolOutput:
    text = result_text(result)
    return ToolOutput(result.name, text, raw_input=arguments, raw_output=result.content, is_error=result.is_error)


def borrow(
    tools: Iterable[BaseTool | BaseToolSpec], *, id: str = "llamaindex", side_effects: Iterable[str] = ()
) -> Source:
    """Their tools and specs as a source of ours. `side_effects` names those that change the world."""
    given = [one for held in tools for one in (held.to_tool_list() if isinstance(held, BaseToolSpec) else [held])]
    return Borrowed(map(_borrowed, given), id=id, side_effects=side_effects)


def _borrowed(tool: BaseTool) -> BorrowedTool:
    held = tool.metadata
    if isinstance(tool, FunctionTool) and tool.requires_context:
        raise DefinitionError(
            f"{held.get_name()} takes the context of a workflow, which there is only in one of theirs",
            hint="Borrow tools that take arguments alone.",
        )

    async def ran(arguments: Mapping[str, Any], context: CallContext) -> Any:
        if isinstance(tool, AsyncBaseTool):
            # Typed as taking one input; every one of theirs takes names, as their schemas say.
            output = await cast("Callable[..., Any]", tool.acall)(**arguments)
        else:
            output = await asyncio.to_thread(cast("Callable[..., Any]", tool), **arguments)
        return _value(output)

    return BorrowedTool(ToolDefinition(held.get_name(), held.description, _parameters(held)), ran)


def _parameters(held: ToolMetadata) -> dict[str, Any]:
    return cast("Any", held).get_parameters_dict()


def _value(output: ToolOutput) -> Any:
    if output.is_error:
        raise ToolError(output.content)
    # Their text of a value is Python's, which no model should have to read; what a callback wrote is meant.
    is_plain = isinstance(output.raw_output, str | int | float | dict | list | None)
    return output.raw_output if is_plain and output.content == str(output.raw_output) else output.content


def _chat(method: _Method) -> _Method:
    """Tells their instrumentation of every chat, as their decorator does, and keeps the type, as it does not."""
    return cast("Any", callbacks).llm_chat_callback()(method)


def _completion(method: _Method) -> _Method:
    return cast("Any", callbacks).llm_completion_callback()(method)


class FerruleLLM(FunctionCallingLLM):
    """An engine as a model that calls functions: `FerruleLLM(engine)`, or a string that `ferrule.load_engine` reads.

    What stands here goes with every request; the same words given to a method count before it.
    `tool_choice_policy="required_first_hop"` makes an agent call a tool before it answers. `context_window` is what
    their memory cuts a conversation to: give the model's own.
    """

    engine: Engine = Described(exclude=True)
    model_name: str = ""
    context_window: int = DEFAULT_CONTEXT_WINDOW
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: list[str] | None = None
    tool_choice_policy: ChoicePolicy = ChoicePolicy.AUTO

    def __init__(self, engine: Engine | str, **settings: Any) -> None:
        used = engine_of(engine)
        # Without the options of a string: a key may be among them.
        name = engine.partition("?")[0] if isinstance(engine, str) else used.traits.name
        super().__init__(**{"engine": used, "model_name": name, **settings})

    @classmethod
    def class_name(cls) -> str:
        return "FerruleLLM"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.max_tokens or DEFAULT_NUM_OUTPUTS,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name=self.model_name,
        )

    @_chat
    def chat(self, messages: Sequence[TheirMessage], **kwargs: Any) -> ChatResponse:
        return _whole(self.engine.generate(self._request(messages, kwargs)))

    @_chat
    async def achat(self, messages: Sequence[TheirMessage], **kwargs: Any) -> ChatResponse:
        return _whole(await self.engine.generate_with_tools(self._request(messages, kwargs)))

    @_chat
    def stream_chat(self, messages: Sequence[TheirMessage], **kwargs: Any) -> Generator[ChatResponse, None, None]:
        steps = self._steps(self._request(messages, kwargs))
        return (step for step in iterate(steps))

    @_chat
    async def astream_chat(self, messages: Sequence[TheirMessage], **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
        return self._steps(self._request(messages, kwargs))

    @_completion
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return _completed(_whole(self.engine.generate(self._request([_user(prompt)], kwargs))))

    @_completion
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return _completed(_whole(await self.engine.generate_with_tools(self._request([_user(prompt)], kwargs))))

    @_completion
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Generator[CompletionResponse, None, None]:
        return (_completed(step) for step in iterate(self._steps(self._request([_user(prompt)], kwargs))))

    @_completion
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> AsyncGenerator[CompletionResponse, None]:
        steps = self._steps(self._request([_user(prompt)], kwargs))
        return (_completed(step) async for step in steps)

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | TheirMessage | None = None,
        chat_history: list[TheirMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """`tool_choice`: auto, none, any or required, the name of a tool, or what OpenAI's API takes."""
        said = [_user(user_msg) if isinstance(user_msg, str) else user_msg] if user_msg is not None else []
        offered = [_openai_tool(tool.metadata) for tool in tools]
        asked = {"tools": offered, "parallel_tool_calls": allow_parallel_tool_calls, **kwargs}
        if tool_required and kwargs.get("tool_choice") is None:
            asked["tool_choice"] = "required"
        return {"messages": [*(chat_history or ()), *said], **asked}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The calls that are whole."""
        blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        whole = [
            ToolSelection(tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in blocks
            if isinstance(block.tool_kwargs, dict)
        ]
        if error_on_no_tool_call and not whole:
            raise EngineError("a call was expected, and the model answered in words", code="no_call")
        return whole

    def _request(self, messages: Iterable[TheirMessage], given: Mapping[str, Any]) -> ToolCallRequest:
        held = {name: value for name, value in given.items() if value is not None}
        own = self.model_dump(include=_SETTINGS, exclude_none=True)
        return request_of(_our_messages(messages), {**own, **held})

    async def _steps(self, request: ToolCallRequest) -> AsyncGenerator[ChatResponse, None]:
        folding = Folding()
        async with aclosing(self.engine.stream(request)) as events:
            async for event in events:
                folding.add(event)
                if isinstance(event, _SILENT):
                    continue
                told = {"thinking_delta": event.text} if isinstance(event, ReasoningDelta) else {}
                delta = event.text if isinstance(event, TextDelta) else ""
                message = _their_message(folding.reply())
                yield ChatResponse(message=message, delta=delta, additional_kwargs=told)
        yield _whole(folding.reply())


def _openai_tool(held: ToolMetadata) -> dict[str, Any]:
    function = {"name": held.get_name(), "description": held.description, "parameters": _parameters(held)}
    return {"type": "function", "function": function}


def _whole(reply: Reply) -> ChatResponse:
    words = why_unfit(reply)
    if words:
        raise EngineError(words, code="incomplete_call")
    usage = usage_body(reply.usage) if reply.usage else {}
    raw = {"finish_reason": reply.finish_reason.value, "usage": usage, **Extension.of(reply).as_field()}
    return ChatResponse(message=_their_message(reply), delta="", raw=raw, additional_kwargs=usage)


def _completed(response: ChatResponse) -> CompletionResponse:
    told: dict[str, Any] = cast("Any", response).additional_kwargs
    text = response.message.content or ""
    return CompletionResponse(text=text, delta=response.delta, raw=response.raw, additional_kwargs=told)


def _user(text: str) -> TheirMessage:
    return TheirMessage(text, role=MessageRole.USER)


def _their_message(reply: Reply) -> TheirMessage:
    return TheirMessage(role=MessageRole.ASSISTANT, blocks=[_their_block(part) for part in reply.parts])


def _their_block(part: ReplyPart) -> ContentBlock:
    match part:
        case Text(text):
            return TextBlock(text=text)
        case Reasoning(text):
            return ThinkingBlock(content=text)
        case ToolCall():
            arguments = part.arguments if part.complete else part.function.arguments
            return ToolCallBlock(tool_call_id=part.id, tool_name=part.name, tool_kwargs=arguments)


def _our_messages(messages: Iterable[TheirMessage]) -> tuple[ChatMessage, ...]:
    names: dict[str, str] = {}
    ours: list[ChatMessage] = []
    for message in messages:
        role, parts = _ROLES[message.role], tuple(_parts(message))
        if role is Role.TOOL:
            id = str(message.additional_kwargs.get("tool_call_id", ""))
            text = "".join(part.text for part in parts if isinstance(part, Text))
            ours.append(ChatMessage.tool(id, text, names.get(id, "")))
            continue
        ours.append(ChatMessage(role, parts))
        names.update({call.id: call.name for call in ours[-1].tool_calls})
    return tuple(ours)


def _parts(message: TheirMessage) -> Iterator[Part]:
    for block in message.blocks:
        match block:
            case TextBlock(text=text):
                yield Text(text)
            case ThinkingBlock(content=text):
                yield Reasoning(text or "")
            case ToolCallBlock(tool_call_id=id, tool_name=name, tool_kwargs=arguments):
                yield ToolCall.of(name, arguments, id or "")
            case CachePoint():
                pass
            case _:
                told = f"a block of type {block.block_type!r} is not taken"
                raise DefinitionError(told, hint="Send text; images, audio and files are not.")
