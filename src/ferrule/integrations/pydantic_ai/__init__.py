"""Pydantic AI: `Agent(FerruleModel("llama:model.gguf"), toolsets=lend([my_tool]))`, and its tools in ours.

A call that is cut off or refused raises `IncompleteToolCall` or `UnexpectedModelBehavior`, which end the run; an engine
that fails raises the `ModelAPIError` of its kind, so that a `FallbackModel` goes on to the next. Receipts are in
`ToolCallPart.provider_details["receipt"]`, diagnostics in `ModelResponse.provider_details["ferrule"]`.
"""

from ferrule.integrations.pydantic_ai.model import FerruleModel
from ferrule.integrations.pydantic_ai.tool_export import LentToolset, alend, lend
from ferrule.integrations.pydantic_ai.tool_import import borrow

__all__ = ["FerruleModel", "LentToolset", "alend", "borrow", "lend"]
