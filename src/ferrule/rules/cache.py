"""RuleCache: emitted grammars by what they were made from, bounded by bytes, the least lately used dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ferrule.core.choice import ToolChoice
from ferrule.core.json_text import fingerprint
from ferrule.core.tool import ToolDefinition


class RuleKey(NamedTuple):
    """Everything that a grammar depends on."""

    format: str
    tools: str
    choice: str
    target: str
    rest: str = ""


def rule_key(
    format: str, tools: tuple[ToolDefinition, ...], choice: ToolChoice, target: str, rest: str = ""
) -> RuleKey:
    """The key for a tool set; two sets of equal tools in the same order have the same one."""
    named = fingerprint([tool.fingerprint for tool in tools])
    return RuleKey(format, named, f"{choice.mode}:{','.join(choice.names or ())}", target, rest)


@dataclass(slots=True)
class RuleCache:
    """`most_bytes` bounds the grammars' text. One that is larger than all of it is made and not kept."""

    most_bytes: int = 32 * 1024 * 1024
    hits: int = 0
    misses: int = 0
    _held: OrderedDict[RuleKey, str] = field(default_factory=OrderedDict[RuleKey, str])
    _bytes: int = 0

    def get(self, key: RuleKey, make: Callable[[], str]) -> str:
        held = self._held.get(key)
        if held is not None:
            self._held.move_to_end(key)
            self.hits += 1
            return held
        self.misses += 1
        made = make()
        size = len(made.encode())
        if size <= self.most_bytes:
            self._held[key] = made
            self._bytes += size
            while self._bytes > self.most_bytes:
                _, dropped = self._held.popitem(last=False)
                self._bytes -= len(dropped.encode())
        return made

    @property
    def size(self) -> int:
        """How many bytes are held."""
        return self._bytes
