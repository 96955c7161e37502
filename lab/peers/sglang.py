"""SGLang's tool-call detectors, loaded from its unpacked wheel without the engine, used as its chat server does.

The end of a stream is handled as SGLang's server does it: the detector is flushed, then arguments of the last call that
were parsed but never sent are added.
"""

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from lab.peers.outcome import Outcome, Sum


def names() -> list[str]:
    return sorted(_sglang().parser.ToolCallParserEnum)


def batch(name: str, text: str, tools: Sequence[Mapping[str, Any]]) -> Outcome:
    return prepare_batch(name, text, tools)()


def stream(name: str, chunks: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> Outcome:
    return prepare_stream(name, chunks, tools)()


def prepare_batch(name: str, text: str, tools: Sequence[Mapping[str, Any]]) -> Callable[[], Outcome]:
    """The parse as a function to call; the request is prepared before."""
    parser_class, sglang_tools = _sglang().parser, _sglang_tools(tools)

    def run() -> Outcome:
        parser = parser_class(sglang_tools, name)
        if not parser.has_tool_call(text):
            return {"content": text, "calls": [], "error": None}
        content, calls = parser.parse_non_stream(text)
        return {
            "content": content or "",
            "calls": [{"name": call.name or "", "arguments": call.parameters} for call in calls],
            "error": None,
        }

    return run


def prepare_stream(name: str, chunks: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> Callable[[], Outcome]:
    parser_class, sglang_tools = _sglang().parser, _sglang_tools(tools)

    def run() -> Outcome:
        parser = parser_class(sglang_tools, name)
        total = Sum()
        for chunk in chunks:
            _add(total, *parser.parse_stream_chunk(chunk))
        _add(total, *parser.parse_stream_end())
        _add_unsent_arguments(total, parser.detector)
        return total.outcome()

    return run


def _add(total: Sum, content: str, calls: Sequence[Any]) -> None:
    total.add_content(content)
    for call in calls:
        total.add_call(call.tool_index, call.name, call.parameters)


def _add_unsent_arguments(total: Sum, detector: Any) -> None:
    parsed: list[dict[str, Any]] = getattr(detector, "prev_tool_call_arr", [])
    streamed: list[str] = getattr(detector, "streamed_args_for_tool", [])
    last = len(parsed) - 1
    if not parsed or last >= len(streamed):
        return
    arguments = parsed[last].get("arguments", {})
    whole = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if whole.startswith(streamed[last]) and whole != streamed[last]:
        total.add_call(last, None, whole[len(streamed[last]) :])


class _Sglang:
    """The loaded modules, cached: an import takes seconds."""

    def __init__(self) -> None:
        root = Path(sys.prefix).parents[1] / "wheels" / "sglang" / "sglang"
        _bare_package("sglang", root)
        _bare_package("sglang.srt", root / "srt")
        utils = ModuleType("sglang.utils")
        utils.__dict__["convert_json_schema_to_str"] = _schema_text
        sys.modules["sglang.utils"] = utils
        self.parser: Any = importlib.import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
        self.tool: Any = importlib.import_module("sglang.srt.entrypoints.openai.protocol").Tool


@cache
def _sglang() -> _Sglang:
    return _Sglang()


def _bare_package(name: str, folder: Path) -> None:
    """Register only the folder of the package, so that its `__init__`, which starts the engine, never runs."""
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def _schema_text(schema: object) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def _sglang_tools(tools: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [_sglang().tool(type="function", function=tool.get("function", tool)) for tool in tools]
