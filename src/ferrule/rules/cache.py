"""The key of a grammar in a cache, and a cache of grammars."""

from __future__ import annotations

from typing import NamedTuple

from ferrule.core.byte_cache import ByteCache
from ferrule.core.json_text import fingerprint
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition


class RuleKey(NamedTuple):
    """The cache key of a grammar: everything that the grammar depends on."""

    format: str
    tools: str
    choice: str
    target: str
    rest: str = ""


def rule_key(
    format: str, tools: tuple[ToolDefinition, ...], choice: ToolChoice, target: str, rest: str = ""
) -> RuleKey:
    """The key for a tool set. Two sets of equal tools in the same order have the same key."""
    tools_fingerprint = fingerprint([tool.fingerprint for tool in tools])
    return RuleKey(format, tools_fingerprint, f"{choice.mode}:{','.join(choice.names or ())}", target, rest)


class RuleCache(ByteCache[RuleKey, str]):
    """A cache of complete grammars."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        super().__init__(lambda _, text: len(text.encode()), max_bytes)
