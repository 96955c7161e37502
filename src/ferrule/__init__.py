"""Ferrule binds language models to tools: every call parses, names an offered tool and fits its JSON Schema.

This module holds the names that most programs need. The rest is in the other public modules: `ferrule.engines`,
`ferrule.errors`, `ferrule.events`, `ferrule.formats`, `ferrule.gateway`, `ferrule.hooks`, `ferrule.integrations`,
`ferrule.ledger`, `ferrule.sources`, `ferrule.specification` and `ferrule.testing`. Every other module is private and
may change without notice.

Example:
    import asyncio

    from ferrule import ToolConversation, load_engine, tool

    @tool
    def get_weather(city: str) -> str:
        return f"sunny in {city}"

    async def main() -> None:
        async with load_engine("llama:model.gguf") as engine:
            turn = await ToolConversation(engine, [get_weather]).send_message("How is the weather in Rome?")
            print(turn.text)

    asyncio.run(main())
"""

from typing import TYPE_CHECKING

from ferrule.core.call import FunctionCall, Receipt, ToolCall, ToolResult
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
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.text_grammar import TextGrammar
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
from ferrule.lazy_exports import lazy_exports
from ferrule.schema.tool_decorator import FunctionTool, tool
from ferrule.wire.prompt import format_with_tools, has_native_support, parse_tool_calls

# Imported on first use: engines import templates and grammars, which a program that only parses calls does not need.
if TYPE_CHECKING:
    from ferrule import engines as engines
    from ferrule import errors as errors
    from ferrule import events as events
    from ferrule import formats as formats
    from ferrule import gateway as gateway
    from ferrule import hooks as hooks
    from ferrule import integrations as integrations
    from ferrule import ledger as ledger
    from ferrule import sources as sources
    from ferrule import specification as specification
    from ferrule import testing as testing
    from ferrule.engines.engine import Engine
    from ferrule.engines.registry import load_engine
    from ferrule.engines.text.engine import TextOptions
    from ferrule.run.conversation import ConversationTurn, ToolConversation
    from ferrule.run.deferral import DeferralSettings
    from ferrule.run.executor import ToolExecutor
    from ferrule.run.journal import Decision
    from ferrule.version import __version__ as __version__
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "engines.engine": ["Engine"],
            "engines.registry": ["load_engine"],
            "engines.text.engine": ["TextOptions"],
            "run.conversation": ["ConversationTurn", "ToolConversation"],
            "run.deferral": ["DeferralSettings"],
            "run.executor": ["ToolExecutor"],
            "run.journal": ["Decision"],
            # Programs that were written from the specification import these from here. Others need not see them.
            "specification": [
                *("ConstrainedToolGenerator", "GenerateParams", "GenericXmlToolTemplate", "Grammar", "GrammarCache"),
                *(
                    "GrammarCompiler",
                    "Llama31ToolTemplate",
                    "LogitProcessor",
                    "MistralToolTemplate",
                    "QwenToolTemplate",
                ),
                *("Tool", "ToolCallingTemplate", "ToolParser", "parse_tool_calls_from_content", "register_detector"),
                *(
                    "DETECTORS",
                    "TOOLS_DEFAULT_SET",
                    "default_slm_hooks",
                    "reply_or_tool_grammar",
                    "single_tool_grammar",
                    "tool_call_grammar",
                ),
            ],
            "version": ["__version__"],
        },
        (
            *("engines", "errors", "events", "formats", "gateway", "hooks", "integrations", "ledger"),
            *("sources", "specification", "testing"),
        ),
    )

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
    "DeferralSettings",
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
    "FormatConflictError",
    "FormatError",
    "FunctionCall",
    "FunctionTool",
    "InvalidResponseError",
    "JsonSchema",
    "Media",
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
    "TextGrammar",
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
    "has_native_support",
    "load_engine",
    "parse_tool_calls",
    "tool",
]
