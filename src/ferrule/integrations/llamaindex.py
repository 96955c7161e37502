"""LlamaIndex: `FunctionAgent(tools=export_tools([my_tool]), llm=FerruleLLM("llama:model.gguf"))`.

A reply with a truncated or rejected call raises `EngineError`, streamed or not. LlamaIndex has no error type for a
model that fails, and lets those of its integrations propagate. Receipts, diagnostics and usage are in
`ChatResponse.raw`, reasoning is a `ThinkingBlock`, and a call that is still streaming has its arguments as text.
"""

from __future__ import annotations

import inspect
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
from llama_index.core.tools.types import BaseToolAsyncAdapter

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.event import CallEnd, Diagnostic, Finish, ReasoningDelta, TextDelta
from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.reply import Reply, ReplyFold, ReplyPart
from ferrule.core.request import ChoicePolicy, ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.extension import Extension
from ferrule.dialects.openai_chat.usage import usage_body
from ferrule.dialects.result_text import result_text
from ferrule.engines.engine import Engine
from ferrule.engines.sync import iterate
from ferrule.errors import DefinitionError, EngineError, ToolError
from ferrule.integrations.exported_tools import ExportableTools, ExportedTool, wrap_tools, wrap_tools_async
from ferrule.integrations.imported_tools import ImportedTool, ImportedTools
from ferrule.integrations.model import engine_of, rejection_reason
from ferrule.integrations.request import request_of
from ferrule.run.decision import DecideInput
from ferrule.run.loop import deny_all
from ferrule.sources.source import Source

__all__ = ["FerruleLLM", "FerruleTool", "FerruleToolSpec", "export_tools", "export_tools_async", "import_tools"]

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
_NOT_STREAMED = (Diagnostic, CallEnd, Finish)
_Method = TypeVar("_Method", bound=Callable[..., Any])


def export_tools(tools: ExportableTools, decide: DecideInput = deny_all) -> list[FunctionTool]:
    """Export Ferrule tools to a LlamaIndex agent. `decide` approves each call of a tool with side effects.

    Example:
        agent = FunctionAgent(tools=export_tools([get_weather]), llm=llm)
    """
    return [FerruleTool(tool) for tool in wrap_tools(tools, decide)]


async def export_tools_async(tools: ExportableTools, decide: DecideInput = deny_all) -> list[FunctionTool]:
    """Like `export_tools`, in a running event loop. A source with connections is used in this loop."""
    return [FerruleTool(tool) for tool in await wrap_tools_async(tools, decide)]


class FerruleToolSpec(BaseToolSpec):
    """Ferrule tools as a LlamaIndex tool spec."""

    def __init__(self, tools: ExportableTools, decide: DecideInput = deny_all) -> None:
        self._tools = {tool.metadata.get_name(): tool for tool in export_tools(tools, decide)}
        self.spec_functions = [*self._tools]

    def to_tool_list(self, spec_functions: Any = None, func_to_metadata_mapping: Any = None) -> list[FunctionTool]:
        """All tools, or those named in `spec_functions`."""
        return [self._tools[name] for name in spec_functions or self._tools]


@dataclass
class _Metadata(ToolMetadata):
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])

    def get_parameters_dict(self) -> dict[str, Any]:
        # LlamaIndex reads "properties" even if the schema has none.
        return self.parameters if "properties" in self.parameters else {**self.parameters, "properties": {}}

    @property
    def fn_schema_str(self) -> str:
        return dumps(self.get_parameters_dict())


class FerruleTool(FunctionTool):
    """An exported Ferrule tool. Ferrule's executor validates the arguments of every call; LlamaIndex does not.

    An error is returned as a `ToolOutput` with `is_error`. Its text says so too, because only the text reaches the
    model. LlamaIndex does not pass call ids to tools, so every call gets a new one here.
    """

    def __init__(self, exported: ExportedTool) -> None:
        self._exported = exported
        definition = exported.definition
        super().__init__(
            self._text, _Metadata(definition.description, definition.name, None, parameters=definition.parameters)
        )

    def _text(self, /, **arguments: Any) -> str:
        return self.call(**arguments).content

    def call(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        return _output(self._exported.call_sync(_arguments(args, kwargs)), kwargs)

    async def acall(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        return _output(await self._exported.call(_arguments(args, kwargs)), kwargs)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if args:
        raise ToolError("pass arguments by name")
    return kwargs


def _output(result: ToolResult, arguments: dict[str, Any]) -> ToolOutput:
    text = result_text(result)
    return ToolOutput(result.name, text, raw_input=arguments, raw_output=result.content, is_error=result.is_error)


def import_tools(
    tools: Iterable[BaseTool | BaseToolSpec], *, id: str = "llamaindex", side_effects: Iterable[str] = ()
) -> Source:
    """Import LlamaIndex tools and tool specs as a Ferrule source. `side_effects` names the tools with side effects.

    Example:
        talk = ToolConversation(engine, import_tools([WikipediaToolSpec()]))
    """
    flattened = [
        tool for entry in tools for tool in (entry.to_tool_list() if isinstance(entry, BaseToolSpec) else [entry])
    ]
    return ImportedTools(map(_imported_tool, flattened), id=id, side_effects=side_effects)


def _imported_tool(tool: BaseTool) -> ImportedTool:
    metadata = tool.metadata
    if isinstance(tool, FunctionTool) and tool.requires_context:
        raise DefinitionError(
            f"{metadata.get_name()} needs the context of a LlamaIndex workflow, which does not exist here",
            hint="Import only tools that take plain arguments.",
        )

    definition = ToolDefinition(metadata.get_name(), metadata.description, _parameters(metadata))
    # They are typed to take one input, but all of them take keyword arguments, as their schemas say.
    call, acall = cast("Callable[..., Any]", tool), cast("Callable[..., Any]", getattr(tool, "acall", None))

    async def run(arguments: Mapping[str, Any], context: CallContext) -> Any:
        return _value(await acall(**arguments))

    def run_in_thread(arguments: Mapping[str, Any], context: CallContext) -> Any:
        return _value(call(**arguments))

    return ImportedTool(definition, run) if _is_async(tool) else ImportedTool(definition, run_in_thread=run_in_thread)


def _is_async(tool: BaseTool) -> bool:
    """Whether the tool waits without a thread. `acall` of a plain function uses the event loop's own threads."""
    if isinstance(tool, FunctionTool):
        return inspect.iscoroutinefunction(tool.real_fn)
    return isinstance(tool, AsyncBaseTool) and not isinstance(tool, BaseToolAsyncAdapter)


def _parameters(metadata: ToolMetadata) -> dict[str, Any]:
    return cast("Any", metadata).get_parameters_dict()


def _value(output: ToolOutput) -> Any:
    if output.is_error:
        raise ToolError(output.content)
    # The default text of a value is its Python repr, which is hard to read for a model, so prefer the value itself. Any
    # other text comes from a callback and is intended.
    is_plain = isinstance(output.raw_output, str | int | float | dict | list | None)
    return output.raw_output if is_plain and output.content == str(output.raw_output) else output.content


def _chat(method: _Method) -> _Method:
    """Report every chat to LlamaIndex's instrumentation. Their decorator does this too, but loses the type."""
    return cast("Any", callbacks).llm_chat_callback()(method)


def _completion(method: _Method) -> _Method:
    return cast("Any", callbacks).llm_completion_callback()(method)


class FerruleLLM(FunctionCallingLLM):
    """A Ferrule engine as a function-calling LLM, from an `Engine` or a string for `ferrule.load_engine`.

    The settings apply to every request; the same options of a method override them.
    `tool_choice_policy="required_first_hop"` makes an agent call a tool before it answers. LlamaIndex's memory
    truncates a conversation to `context_window`: set it to the model's own.

    Example:
        llm = FerruleLLM("llama:model.gguf", context_window=8192)
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
        loaded = engine_of(engine)
        # Without the options in the string: they may include an API key.
        name = engine.partition("?")[0] if isinstance(engine, str) else loaded.traits.name
        super().__init__(**{"engine": loaded, "model_name": name, **settings})

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
        return _complete(self.engine.generate(self._request(messages, kwargs)))

    @_chat
    async def achat(self, messages: Sequence[TheirMessage], **kwargs: Any) -> ChatResponse:
        return _complete(await self.engine.generate_with_tools(self._request(messages, kwargs)))

    @_chat
    def stream_chat(self, messages: Sequence[TheirMessage], **kwargs: Any) -> Generator[ChatResponse, None, None]:
        steps = self._steps(self._request(messages, kwargs))
        return (step for step in iterate(steps))

    @_chat
    async def astream_chat(self, messages: Sequence[TheirMessage], **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
        return self._steps(self._request(messages, kwargs))

    @_completion
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return _completion_response(_complete(self.engine.generate(self._request([_user(prompt)], kwargs))))

    @_completion
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return _completion_response(
            _complete(await self.engine.generate_with_tools(self._request([_user(prompt)], kwargs)))
        )

    @_completion
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Generator[CompletionResponse, None, None]:
        return (_completion_response(step) for step in iterate(self._steps(self._request([_user(prompt)], kwargs))))

    @_completion
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> AsyncGenerator[CompletionResponse, None]:
        steps = self._steps(self._request([_user(prompt)], kwargs))
        return (_completion_response(step) async for step in steps)

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
        """`tool_choice` is auto, none, any or required, the name of a tool, or a value of OpenAI's API."""
        new_messages = [_user(user_msg) if isinstance(user_msg, str) else user_msg] if user_msg is not None else []
        offered = [_openai_tool(tool.metadata) for tool in tools]
        options = {"tools": offered, "parallel_tool_calls": allow_parallel_tool_calls, **kwargs}
        if tool_required and kwargs.get("tool_choice") is None:
            options["tool_choice"] = "required"
        return {"messages": [*(chat_history or ()), *new_messages], **options}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The complete tool calls."""
        blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        selections = [
            ToolSelection(tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in blocks
            if isinstance(block.tool_kwargs, dict)
        ]
        if error_on_no_tool_call and not selections:
            raise EngineError("the model answered with text instead of a tool call", code="no_call")
        return selections

    def _request(self, messages: Iterable[TheirMessage], options: Mapping[str, Any]) -> ToolCallRequest:
        present = {name: value for name, value in options.items() if value is not None}
        settings = self.model_dump(include=_SETTINGS, exclude_none=True)
        return request_of(_our_messages(messages), {**settings, **present})

    async def _steps(self, request: ToolCallRequest) -> AsyncGenerator[ChatResponse, None]:
        fold = ReplyFold()
        async with aclosing(self.engine.stream(request)) as events:
            async for event in events:
                fold.add(event)
                if isinstance(event, _NOT_STREAMED):
                    continue
                extra = {"thinking_delta": event.text} if isinstance(event, ReasoningDelta) else {}
                delta = event.text if isinstance(event, TextDelta) else ""
                message = _their_message(fold.reply())
                yield ChatResponse(message=message, delta=delta, additional_kwargs=extra)
        yield _complete(fold.reply())


def _openai_tool(metadata: ToolMetadata) -> dict[str, Any]:
    function = {"name": metadata.get_name(), "description": metadata.description, "parameters": _parameters(metadata)}
    return {"type": "function", "function": function}


def _complete(reply: Reply) -> ChatResponse:
    problem = rejection_reason(reply)
    if problem:
        raise EngineError(problem, code="incomplete_call")
    usage = usage_body(reply.usage) if reply.usage else {}
    raw = {"finish_reason": reply.finish_reason.value, "usage": usage, **Extension.of(reply).as_field()}
    return ChatResponse(message=_their_message(reply), delta="", raw=raw, additional_kwargs=usage)


def _completion_response(response: ChatResponse) -> CompletionResponse:
    usage: dict[str, Any] = cast("Any", response).additional_kwargs
    text = response.message.content or ""
    return CompletionResponse(text=text, delta=response.delta, raw=response.raw, additional_kwargs=usage)


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
    converted: list[ChatMessage] = []
    for message in messages:
        role, parts = _ROLES[message.role], tuple(_parts(message))
        if role is Role.TOOL:
            id = str(message.additional_kwargs.get("tool_call_id", ""))
            text = "".join(part.text for part in parts if isinstance(part, Text))
            converted.append(ChatMessage.tool(id, text, names.get(id, "")))
            continue
        converted.append(ChatMessage(role, parts))
        names.update({call.id: call.name for call in converted[-1].tool_calls})
    return tuple(converted)


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
                problem = f"a block of type {block.block_type!r} is not supported"
                raise DefinitionError(problem, hint="Send text; images, audio and files are not supported.")
