"""LRU caches for emitted grammars, bounded by bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

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


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class ByteCache(Generic[_Key, _Value]):
    """An LRU cache whose values take at most `max_bytes`, as measured by `size_of`. A larger value is not stored."""

    def __init__(self, size_of: Callable[[_Value], int], max_bytes: int = 32 * 1024 * 1024) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._size_of = size_of
        self._entries: OrderedDict[_Key, _Value] = OrderedDict()

    def lookup(self, key: _Key) -> _Value | None:
        """The cached value, or None. It counts as a hit and becomes the most recently used."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
            self.hits += 1
        return value

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """The cached value, or a new one from `make`, which is stored."""
        cached = self.lookup(key)
        if cached is not None:
            return cached
        self.misses += 1
        value = make()
        size = self._size_of(value)
        if size <= self.max_bytes:
            self._entries[key] = value
            self.size += size
            while self.size > self.max_bytes:
                _, dropped = self._entries.popitem(last=False)
                self.size -= self._size_of(dropped)
        return value

    def cache_clear(self) -> None:
        """Drop all entries. The name is the one that `functools.lru_cache` uses."""
        self._entries.clear()
        self.size = 0


class RuleCache(ByteCache[RuleKey, str]):
    """A cache of complete grammars."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        super().__init__(lambda text: len(text.encode()), max_bytes)
