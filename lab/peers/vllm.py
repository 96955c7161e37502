"""vLLM's tool parsers, loaded from its unpacked wheel without the engine, used as its chat server does.

Both paths use vLLM's own `DelegatingParser`, so that the repairs of its server at the end of a stream happen here too.
The last chunk has the token that ends the reply; it is empty if that token came alone.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from lab.peers.markers import NOT_SPECIAL, SPECIALS
from lab.peers.outcome import Outcome, Sum
from lab.peers.stubs import Finder
from lab.peers.tokens import END_ID, Tokenizer

_REAL: Final = (
    *("vllm.parser", "vllm.tool_parsers", "vllm.reasoning", "vllm.entrypoints.generate.base.protocol"),
    *("vllm.entrypoints.serve.engine.protocol", "vllm.entrypoints.cohere.cohere_chat_message", "vllm.exceptions"),
    *("vllm.envs", "vllm.utils", "vllm.config.utils"),
)
_CHAT_PROTOCOL: Final = "vllm.entrypoints.openai.chat_completion.protocol"


def names() -> list[str]:
    """Every parser that vLLM registers, and those that we also use with a second vocabulary."""
    registered: list[str] = _vllm().manager.list_registered()
    return sorted({*registered, *(name for name in SPECIALS if "@" in name)})


def batch(name: str, text: str, tools: Sequence[Mapping[str, Any]]) -> Outcome:
    return prepare_batch(name, text, tools)()


def stream(name: str, chunks: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> Outcome:
    return prepare_stream(name, chunks, tools)()


def prepare_batch(name: str, text: str, tools: Sequence[Mapping[str, Any]]) -> Callable[[], Outcome]:
    """The parse as a function to call; the engine's work (the request, the tokens) is done before."""
    composed, tokenizer, request = _parts(name, tools)

    def run() -> Outcome:
        parser = composed(tokenizer, request.tools)
        _reasoning, content, calls = parser.parse(text, request, enable_auto_tools=True)
        return {
            "content": content or "",
            "calls": [{"name": call.name, "arguments": call.arguments} for call in calls or ()],
            "error": None,
        }

    return run


def prepare_stream(name: str, chunks: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> Callable[[], Outcome]:
    composed, tokenizer, request = _parts(name, tools)
    deltas = [(chunk, tokenizer.encode(chunk)) for chunk in chunks]
    if deltas:
        deltas[-1][1].append(END_ID)

    def run() -> Outcome:
        parser = composed(tokenizer, request.tools)
        total = Sum()
        for position, (text, ids) in enumerate(deltas, start=1):
            delta = parser.parse_delta(text, ids, request, prompt_token_ids=[], finished=position == len(deltas))
            if delta is None:
                continue
            total.add_content(delta.content)
            for call in delta.tool_calls or ():
                function = call.function
                total.add_call(call.index, function and function.name, function and function.arguments)
        return total.outcome()

    return run


class _Request:
    """What vLLM's parsers read of a chat request; the class stands in for `ChatCompletionRequest`."""

    def __init__(self, tools: list[Any]) -> None:
        self.tools = tools
        self.tool_choice = "auto"
        self.parallel_tool_calls = True
        self.include_reasoning = True
        self.skip_special_tokens = True
        self.spaces_between_special_tokens = True
        self.messages: list[Any] = []
        self.chat_template_kwargs: dict[str, Any] | None = None
        self.structured_outputs = None
        self.response_format = None

    def is_include_output_logprobs(self) -> bool:
        return False


class _Vllm:
    """The loaded modules, cached: an import takes seconds."""

    def __init__(self) -> None:
        replacements = {"vllm.renderers.chat_utils": {"make_tool_call_id": _call_id}}
        root = Path(sys.prefix).parents[1] / "wheels" / "vllm"
        Finder("vllm", root, _REAL, replacements).install()
        protocol = importlib.import_module("vllm.entrypoints.generate.base.protocol")
        message = importlib.import_module("vllm.entrypoints.serve.engine.protocol").OpenAIBaseModel
        self.tool_class: Any = importlib.import_module("pydantic").create_model(
            "ChatCompletionToolsParam",
            __base__=message,
            type=(str, "function"),
            function=(protocol.FunctionDefinition, ...),
        )
        importlib.import_module(_CHAT_PROTOCOL).__dict__.update(
            ChatCompletionToolsParam=self.tool_class, ChatCompletionRequest=_Request, ChatMessage=message
        )
        self.manager: Any = importlib.import_module("vllm.tool_parsers").ToolParserManager
        self.composer: Any = importlib.import_module("vllm.parser.parser_manager").ParserManager


@cache
def _vllm() -> _Vllm:
    return _Vllm()


@cache
def _compose_parser(name: str) -> tuple[Any, Tokenizer]:
    composed = _vllm().composer.get_parser(tool_parser_name=name.partition("@")[0], enable_auto_tools=True)
    return composed, Tokenizer(SPECIALS.get(name, ()), NOT_SPECIAL)


def _parts(name: str, tools: Sequence[Mapping[str, Any]]) -> tuple[Any, Tokenizer, _Request]:
    composed, tokenizer = _compose_parser(name)
    vllm_tools = [_vllm().tool_class(type="function", function=tool.get("function", tool)) for tool in tools]
    return composed, tokenizer, _Request(vllm_tools)


def _call_id(*_args: object, **_options: object) -> str:
    return f"chatcmpl-tool-{uuid4().hex}"
