"""Ferrule binds language models to tools: every call parses, names an offered tool and fits its JSON Schema."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.choice import ChoiceMode, ChoicePolicy, ToolChoice
from ferrule.core.context import CallContext
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    RuleShown,
    TextDelta,
    Usage,
    WireText,
)
from ferrule.core.fault import Fault
from ferrule.core.json_schema import JsonSchema
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.core.receipt import Receipt
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import (
    DefinitionError,
    EngineError,
    EngineTimeoutError,
    EngineUnavailableError,
    FerruleError,
    FormatConflictError,
    FormatError,
    InvalidResponseError,
    SchemaError,
    TemplateError,
    ToolError,
    UnknownFormatError,
    UnrenderableError,
    UnsupportedError,
)
from ferrule.schema.tool_decorator import FunctionTool, tool
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser, parse
from ferrule.wire.prompt import format_with_tools, has_native_support, parse_tool_calls
from ferrule.wire.registry import formats, get_format, preset, register
from ferrule.wire.renderer import render, render_results

if TYPE_CHECKING:
    __version__: str
    from ferrule.engines.engine import Engine
    from ferrule.engines.registry import load_engine
    from ferrule.engines.text.engine import TextOptions
    from ferrule.run.conversation import ConversationTurn, ToolConversation
    from ferrule.run.executor import ToolExecutor
    from ferrule.run.journal import Decision

# Imported on first use: engines import templates and grammars, which a program that only parses calls does not need.
_LAZY = {
    "ConversationTurn": "run.conversation",
    "Decision": "run.loop",
    "Engine": "engines.engine",
    "TextOptions": "engines.text.engine",
    "ToolConversation": "run.conversation",
    "ToolExecutor": "run.executor",
    "load_engine": "engines.registry",
}

__all__ = [
    "ArgumentsDelta",
    "CallContext",
    "CallEnd",
    "CallStart",
    "ChatMessage",
    "ChoiceMode",
    "ChoicePolicy",
    "ConversationTurn",
    "Decision",
    "DefinitionError",
    "Diagnostic",
    "Engine",
    "EngineError",
    "EngineTimeoutError",
    "EngineUnavailableError",
    "Event",
    "Fault",
    "FerruleError",
    "Finish",
    "FinishReason",
    "Format",
    "FormatConflictError",
    "FormatError",
    "FunctionCall",
    "FunctionTool",
    "InvalidResponseError",
    "JsonSchema",
    "Parser",
    "Reasoning",
    "ReasoningDelta",
    "Receipt",
    "Reply",
    "Role",
    "RuleShown",
    "SchemaError",
    "TemplateError",
    "Text",
    "TextDelta",
    "TextOptions",
    "ToolCall",
    "ToolCallRequest",
    "ToolChoice",
    "ToolConversation",
    "ToolDefinition",
    "ToolError",
    "ToolExecutor",
    "ToolResult",
    "UnknownFormatError",
    "UnrenderableError",
    "UnsupportedError",
    "Usage",
    "WireText",
    "fold",
    "format_with_tools",
    "formats",
    "get_format",
    "has_native_support",
    "load_engine",
    "parse",
    "parse_tool_calls",
    "preset",
    "register",
    "render",
    "render_results",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"ferrule.{_LAZY[name]}"), name)
    if name == "__version__":
        # Read when it is asked for: it takes longer than the rest of the import.
        return import_module("importlib.metadata").version("ferrule")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
