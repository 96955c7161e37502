"""Pydantic AI: `Agent(FerruleModel("llama:model.gguf"), toolsets=export_tools([my_tool]))`, and its tools in Ferrule.

A truncated or rejected call raises `IncompleteToolCall` or `UnexpectedModelBehavior`, which end the run. An engine that
fails raises the matching subclass of `ModelAPIError`, so that a `FallbackModel` tries the next model. Receipts are in
`ToolCallPart.provider_details["receipt"]`, diagnostics in `ModelResponse.provider_details["ferrule"]`.
"""

from ferrule.integrations.pydantic_ai.model import FerruleModel
from ferrule.integrations.pydantic_ai.tool_export import ExportedToolset, export_tools, export_tools_async
from ferrule.integrations.pydantic_ai.tool_import import import_tools

__all__ = ["ExportedToolset", "FerruleModel", "export_tools", "export_tools_async", "import_tools"]
