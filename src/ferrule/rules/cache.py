"""The key of a grammar in a cache, and a cache of grammars."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache
from ferrule.core.json_text import dumps, fingerprint
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_cache import ToolCache


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
    """The key for a tool set. Two sets of equal tools in the same order have the same key.

    The order of a tool's parameters counts too: a call's arguments come in that order, and the model has read it.
    """
    tools_fingerprint = fingerprint([[tool.fingerprint, _ORDERS.get(tool, partial(_order_of, tool))] for tool in tools])
    return RuleKey(format, tools_fingerprint, f"{choice.mode}:{','.join(choice.names or ())}", target, rest)


def _order_of(tool: ToolDefinition) -> str:
    """A hash of the parameters as they are written. The tool's fingerprint is the same for any order of keys."""
    return blake2b(dumps(tool.parameters).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_ORDERS: ToolCache[str] = ToolCache(lambda parameters, _: ENTRY_BYTES + 10 * len(dumps(parameters)))


class RuleCache(ByteCache[RuleKey, str]):
    """A cache of complete grammars."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        super().__init__(lambda _, text: len(text.encode()), max_bytes)
