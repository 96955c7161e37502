"""Qwen's own agent library: its Nous prompt renders and parses the format that we call hermes.

The wheel is unpacked, not installed. Only the modules of the prompt are imported, without the `__init__` of their
packages, which would import cloud, audio and web clients that the prompt never uses.
"""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypedDict

_UNUSED_BY_THE_PROMPT: Final = ("format_as_multimodal_message", "format_as_text_message", "has_chinese_messages")


class Turn(TypedDict):
    role: str
    text: str


class QwenReply(TypedDict):
    content: str
    calls: list[dict[str, str]]


def render(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """A conversation (OpenAI messages) as the plain turns of the prompt."""
    schema = _modules().schema
    functions = [dict(tool.get("function", tool)) for tool in tools]
    pieces = [piece for message in messages for piece in _pieces(schema, message)]
    turns = _modules().prompt().preprocess_fncall_messages(pieces, functions, lang="en")
    return [{"role": turn.role, "text": "".join(item.text for item in turn.content)} for turn in turns]


def parse(text: str) -> QwenReply:
    """The library's parse of a reply."""
    schema = _modules().schema
    reply = schema.Message(role="assistant", content=[schema.ContentItem(text=text)])
    parsed = _modules().prompt().postprocess_fncall_messages([reply])
    return {
        "content": "".join(item.text for message in parsed for item in message.content),
        "calls": [
            {"name": message.function_call.name, "arguments": message.function_call.arguments}
            for message in parsed
            if message.function_call
        ],
    }


def _pieces(schema: Any, message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    items = [schema.ContentItem(text=content)] if content else []
    role = "function" if message["role"] == "tool" else message["role"]
    calls: Sequence[Mapping[str, Any]] = message.get("tool_calls") or ()
    if not calls:
        return [schema.Message(role=role, content=items)]
    result: list[Any] = []
    for position, call in enumerate(calls):
        function = call["function"]
        arguments = function["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        function_call = schema.FunctionCall(name=function["name"], arguments=text)
        result.append(schema.Message(role=role, content=[] if position else items, function_call=function_call))
    return result


class _Modules:
    def __init__(self) -> None:
        root = Path(sys.prefix).parents[1] / "wheels" / "qwen_agent" / "qwen_agent"
        for name, folder in (("qwen_agent", root), ("qwen_agent.llm", root / "llm"), ("qwen_agent.utils", root)):
            package = ModuleType(name)
            package.__path__ = [str(folder)]
            sys.modules[name] = package
        utils = ModuleType("qwen_agent.utils.utils")
        utils.__dict__.update(dict.fromkeys(_UNUSED_BY_THE_PROMPT))
        sys.modules["qwen_agent.utils.utils"] = utils
        self.schema: Any = importlib.import_module("qwen_agent.llm.schema")
        self.prompt: Any = importlib.import_module("qwen_agent.llm.fncall_prompts.nous_fncall_prompt").NousFnCallPrompt


@cache
def _modules() -> _Modules:
    return _Modules()
