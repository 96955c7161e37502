"""ToolCache: what was made of single tools, so that a set with one more tool costs that tool and not the set.

A tool is known by its name and by the object that its admitted parameters are. `schema.admission_cache` gives tools
with equal parameters the same object, which nobody may change, so a request of the same client finds what an earlier
one made without a hash of any schema. The entry keeps the object, so that its `id` stays valid. Nothing is cached of a
tool that was not admitted: its owner may still change it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ferrule.core.byte_cache import ByteCache
from ferrule.core.json_schema import SchemaDict
from ferrule.core.tool import ToolDefinition

_Value = TypeVar("_Value")
_ToolKey = tuple[int, str, Hashable]


class ToolCache(Generic[_Value]):
    """A cache of what was made of a tool's name and parameters, in the budget of the process.

    `size_of` estimates the bytes of the parameters and the value. What else a value depends on is in `rest`.

    Example:
        texts: ToolCache[str] = ToolCache(lambda parameters, text: 2 * len(text))
        texts.get(tool, lambda: dumps(tool.as_function()), tool.description)
    """

    def __init__(self, size_of: Callable[[SchemaDict, _Value], int]) -> None:
        self._cache: ByteCache[_ToolKey, tuple[SchemaDict, _Value]] = ByteCache(lambda _, entry: size_of(*entry))

    @property
    def misses(self) -> int:
        return self._cache.misses

    def get(self, tool: ToolDefinition, make: Callable[[], _Value], rest: Hashable = None) -> _Value:
        """The cached value, or a new one from `make`, which is stored if the tool is admitted."""
        parameters = tool.parameters
        if tool.admitted_parameters is not parameters:
            return make()
        return self._cache.get((id(parameters), tool.name, rest), lambda: (parameters, make()))[1]

    def cache_clear(self) -> None:
        """Drop all entries. The name is the one that `functools.lru_cache` uses."""
        self._cache.cache_clear()
