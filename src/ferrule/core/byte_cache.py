"""ByteCache: LRU caches that share one limit in bytes.

Clients choose the schemas, tools and names that a process sees, so they choose what its caches hold. A limit by number
of entries does not bound memory: one entry may be a thousand times another. A limit for each cache does not bound it
either: every engine has caches of its own. So all caches that requests can fill share one `CacheBudget`. When it is
used up, the entry that was used least recently goes, whichever cache it belongs to.

The budget holds the entries itself, and outlives the engine whose cache they belong to. So a value must not refer to an
engine, a socket or a model. The sizes are estimates, each with its measurement where it is made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import count
from sys import getsizeof

# A lock starts no thread and waits for nobody outside: it keeps the sum of the sizes right.
from threading import RLock
from typing import Any, Final, Generic, TypeVar, TypeVarTuple, cast

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_Arguments = TypeVarTuple("_Arguments")

DEFAULT_BYTES: Final = 128_000_000
"""Space for about 500 compiled grammars of one small tool each, or 20 of the 30 tools of a coding agent."""
ENTRY_BYTES: Final = 512
"""What an entry takes besides its texts: its key, its numbers and the objects around its value, as measured."""


class CacheBudget:
    """The entries of any number of caches. Together they take at most `max_bytes`."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._entries: OrderedDict[tuple[int, Hashable], tuple[object, int]] = OrderedDict()
        self._lock = RLock()

    @property
    def size(self) -> int:
        """The bytes of all entries."""
        return self._size

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @max_bytes.setter
    def max_bytes(self, max_bytes: int) -> None:
        with self._lock:
            self._max_bytes = max_bytes
            dropped = self._shrink()
        del dropped

    def lookup(self, owner: int, key: Hashable) -> object | None:
        """The value of a cache's entry, which becomes the most recently used; None if there is none."""
        with self._lock:
            entry = self._entries.get((owner, key))
            if entry is None:
                return None
            self._entries.move_to_end((owner, key))
            return entry[0]

    def store(self, owner: int, key: Hashable, value: object, size: int) -> None:
        """Add an entry and drop others until it fits. An entry that is larger than the budget is not stored."""
        with self._lock:
            before = self._entries.pop((owner, key), None)
            self._size -= before[1] if before else 0
            if size > self._max_bytes:
                return
            self._entries[owner, key] = (value, size)
            self._size += size
            dropped = self._shrink()
        # Released without the lock: freeing a compiled grammar takes a while.
        del dropped

    def clear(self, owner: int) -> None:
        """Drop the entries of one cache."""
        with self._lock:
            dropped = [self._entries.pop(place) for place in [place for place in self._entries if place[0] == owner]]
            self._size -= sum(size for _, size in dropped)
        del dropped

    def sizes(self) -> dict[int, int]:
        """The bytes of each cache that has entries."""
        sizes: dict[int, int] = {}
        with self._lock:
            for (owner, _), (_, size) in self._entries.items():
                sizes[owner] = sizes.get(owner, 0) + size
        return sizes

    def _shrink(self) -> list[object]:
        dropped: list[object] = []
        while self._size > self._max_bytes:
            _, (value, size) = self._entries.popitem(last=False)
            self._size -= size
            dropped.append(value)
        return dropped


PROCESS_BUDGET: Final = CacheBudget()
"""The budget of every cache that requests can fill."""
_owners = count()


class ByteCache(Generic[_Key, _Value]):
    """An LRU cache. `size_of` estimates the bytes of a key and its value.

    It shares the budget of the process. With `max_bytes` it has a budget of its own: for a cache that no request fills.
    """

    def __init__(self, size_of: Callable[[_Key, _Value], int], max_bytes: int | None = None) -> None:
        self.hits = 0
        self.misses = 0
        self._budget = PROCESS_BUDGET if max_bytes is None else CacheBudget(max_bytes)
        self._owner = next(_owners)
        self._size_of = size_of

    @property
    def size(self) -> int:
        """The bytes of its entries."""
        return self._budget.sizes().get(self._owner, 0)

    @property
    def max_bytes(self) -> int:
        return self._budget.max_bytes

    def lookup(self, key: _Key) -> _Value | None:
        """The cached value, or None. It counts as a hit and becomes the most recently used."""
        value = cast("_Value | None", self._budget.lookup(self._owner, key))
        if value is not None:
            self.hits += 1
        return value

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """The cached value, or a new one from `make`, which is stored."""
        cached = self.lookup(key)
        if cached is not None:
            return cached
        self.misses += 1
        value = make()
        self._budget.store(self._owner, key, value, self._size_of(key, value))
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Store a value, in place of the one that is there."""
        self._budget.store(self._owner, key, value, self._size_of(key, value))

    def cache_clear(self) -> None:
        """Drop all entries. The name is the one that `functools.lru_cache` uses."""
        self._budget.clear(self._owner)


class CachedFunction(Generic[*_Arguments, _Value]):
    """A function whose results are cached by its arguments, in the budget of the process."""

    def __init__(
        self, function: Callable[[*_Arguments], _Value], size_of: Callable[[tuple[Any, ...], _Value], int]
    ) -> None:
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self._cache: ByteCache[tuple[Any, ...], _Value] = ByteCache(size_of)

    def __call__(self, *arguments: *_Arguments) -> _Value:
        return self._cache.get(arguments, lambda: self.__wrapped__(*arguments))

    @property
    def misses(self) -> int:
        return self._cache.misses

    @property
    def size(self) -> int:
        """The bytes of its entries."""
        return self._cache.size

    def cache_clear(self) -> None:
        """Drop all entries. The name is the one that `functools.lru_cache` uses."""
        self._cache.cache_clear()


def byte_cached(
    size_of: Callable[[tuple[Any, ...], Any], int],
) -> Callable[[Callable[[*_Arguments], _Value]], CachedFunction[*_Arguments, _Value]]:
    """Cache a function's results like `functools.lru_cache`, in the budget of the process.

    `size_of` estimates the bytes of the arguments and the result. A result of None is not cached.
    """
    return lambda function: CachedFunction(function, size_of)


def text_bytes(factor: float, base: int = ENTRY_BYTES) -> Callable[[tuple[Any, ...], object], int]:
    """Sizes that follow from those of the argument texts: what is made of them takes `factor` times as much."""

    def size_of(arguments: tuple[Any, ...], result: object) -> int:
        return base + int(factor * sum(getsizeof(argument) for argument in arguments if isinstance(argument, str)))

    return size_of
