"""ClientBody: the body from which a request was read, for an engine that has the same API.

Such an engine sends on what the client wrote, unchanged: also what Ferrule has no words for, and what the provider
binds to the exact bytes, as Anthropic binds the signatures of thinking to all that stands before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.message import ChatMessage
from ferrule.core.tool import ToolDefinition


@dataclass(frozen=True, slots=True)
class ClientBody:
    """`messages` and `tools` are what was read from it. What nobody has changed since is sent as it was written."""

    api: str
    body: Mapping[str, Any]
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The client's headers that belong to the body, such as `anthropic-beta`."""
