"""Caches of what was emitted, by what it was made from: bounded by bytes, the least lately used dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

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


_Key = TypeVar("_Key", bound=Hashable)
_Held = TypeVar("_Held")


class ByteCache(Generic[_Key, _Held]):
    """`most_bytes` bounds what is held, each thing weighed by `size_of`. What is larger than that is not kept."""

    def __init__(self, size_of: Callable[[_Held], int], most_bytes: int = 32 * 1024 * 1024) -> None:
        self.most_bytes = most_bytes
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._size_of = size_of
        self._held: OrderedDict[_Key, _Held] = OrderedDict()

    def held(self, key: _Key) -> _Held | None:
        """What is held, if it is."""
        held = self._held.get(key)
        if held is not None:
            self._held.move_to_end(key)
            self.hits += 1
        return held

    def get(self, key: _Key, make: Callable[[], _Held]) -> _Held:
        held = self.held(key)
        if held is not None:
            return held
        self.misses += 1
        made = make()
        size = self._size_of(made)
        if size <= self.most_bytes:
            self._held[key] = made
            self.size += size
            while self.size > self.most_bytes:
                _, dropped = self._held.popitem(last=False)
                self.size -= self._size_of(dropped)
        return made

    def cache_clear(self) -> None:
        """Forgets everything, under the name that Python's own caches have for it."""
        self._held.clear()
        self.size = 0


class RuleCache(ByteCache[RuleKey, str]):
    """Whole grammars by what they were made from."""

    def __init__(self, most_bytes: int = 32 * 1024 * 1024) -> None:
        super().__init__(lambda text: len(text.encode()), most_bytes)
