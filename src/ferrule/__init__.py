"""Ferrule binds language models to tools: every call parses, names an offered tool and fits its JSON Schema."""

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from ferrule.core.fault import Fault
from ferrule.core.json_schema import JsonSchema
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import (
    DefinitionError,
    FerruleError,
    FormatConflictError,
    FormatError,
    SchemaError,
    UnknownFormatError,
    UnrenderableError,
)
from ferrule.schema.define import FunctionTool, tool
from ferrule.wire.format import Format
from ferrule.wire.parse import Parser, parse
from ferrule.wire.prompt import format_with_tools, has_native_support, parse_tool_calls
from ferrule.wire.registry import formats, get_format, preset, register
from ferrule.wire.render import render, render_results

__all__ = [
    "ArgumentsDelta",
    "CallEnd",
    "CallStart",
    "ChatMessage",
    "ChoiceMode",
    "DefinitionError",
    "Diagnostic",
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
    "JsonSchema",
    "Parser",
    "Reasoning",
    "ReasoningDelta",
    "Reply",
    "Role",
    "SchemaError",
    "Text",
    "TextDelta",
    "ToolCall",
    "ToolCallRequest",
    "ToolChoice",
    "ToolDefinition",
    "ToolResult",
    "UnknownFormatError",
    "UnrenderableError",
    "Usage",
    "fold",
    "format_with_tools",
    "formats",
    "get_format",
    "has_native_support",
    "parse",
    "parse_tool_calls",
    "preset",
    "register",
    "render",
    "render_results",
    "tool",
]
