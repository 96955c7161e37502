"""Sources: where tools come from and where they run.

Python functions need no source: pass them to `ToolConversation` as they are. `mcp` gives the tools of MCP servers,
`openapi` the operations of an OpenAPI document, `Bus` those of workers on NATS, and `Worker` serves your own tools
there. Adapters change a source: they filter its tools, prefix their names or require approval. To write a source,
subclass `Source` and return an `Outcome` from each call.

Example:
    from ferrule import ToolConversation, load_engine
    from ferrule.sources import mcp

    async def ask(question: str) -> str:
        async with load_engine("llama:model.gguf") as engine, mcp("mcp.json") as tools:
            return (await ToolConversation(engine, tools).send_message(question)).text
"""

from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

# The functions have the names of their packages. Importing them here, and not lazily, makes `ferrule.sources.mcp` the
# function for good: Python sets the package as an attribute only when it first imports it, which is now over.
from ferrule.sources.mcp import mcp
from ferrule.sources.openapi import openapi

if TYPE_CHECKING:
    from ferrule.core.context import CallContext, Principal, Progress
    from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
    from ferrule.sources.adapters import (
        ApprovalAdapter,
        CacheAdapter,
        FilterAdapter,
        PrefixAdapter,
        TimeoutAdapter,
    )
    from ferrule.sources.bus.bus import Bus
    from ferrule.sources.bus.worker import Worker
    from ferrule.sources.combined_sources import CombinedSources
    from ferrule.sources.default_tools import DEFAULT_TOOLS
    from ferrule.sources.functions import Functions
    from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
    from ferrule.sources.mcp.pins import Pins
    from ferrule.sources.mcp.sampling import Sample, SamplingRequest
    from ferrule.sources.mcp.servers import McpServers
    from ferrule.sources.openapi.source import ApiKey, OpenApi
    from ferrule.sources.search.tool_index import ToolIndex, ToolMatch
    from ferrule.sources.source import Source
    from ferrule.sources.status import SourceState, SourceStatus, Trust
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "core.context": ["CallContext", "Principal", "Progress"],
            "core.outcome": ["Answered", "NotDelivered", "Outcome", "Unknown"],
            "sources.adapters": [
                *("ApprovalAdapter", "CacheAdapter", "FilterAdapter", "PrefixAdapter", "TimeoutAdapter")
            ],
            "sources.bus.bus": ["Bus"],
            "sources.bus.worker": ["Worker"],
            "sources.combined_sources": ["CombinedSources"],
            "sources.default_tools": ["DEFAULT_TOOLS"],
            "sources.functions": ["Functions"],
            "sources.mcp.elicitation": ["ElicitAnswer", "Elicitation"],
            "sources.mcp.pins": ["Pins"],
            "sources.mcp.sampling": ["Sample", "SamplingRequest"],
            "sources.mcp.servers": ["McpServers"],
            "sources.openapi.source": ["ApiKey", "OpenApi"],
            "sources.search.tool_index": ["ToolIndex", "ToolMatch"],
            "sources.source": ["Source"],
            "sources.status": ["SourceState", "SourceStatus", "Trust"],
        },
    )

__all__ = [
    "DEFAULT_TOOLS",
    "Answered",
    "ApiKey",
    "ApprovalAdapter",
    "Bus",
    "CacheAdapter",
    "CallContext",
    "CombinedSources",
    "ElicitAnswer",
    "Elicitation",
    "FilterAdapter",
    "Functions",
    "McpServers",
    "NotDelivered",
    "OpenApi",
    "Outcome",
    "Pins",
    "PrefixAdapter",
    "Principal",
    "Progress",
    "Sample",
    "SamplingRequest",
    "Source",
    "SourceState",
    "SourceStatus",
    "TimeoutAdapter",
    "ToolIndex",
    "ToolMatch",
    "Trust",
    "Unknown",
    "Worker",
    "mcp",
    "openapi",
]
