"""ToolFinder: finds tools by words among those of one request. The indexes of the last few sets of tools are kept.

A client sends all of its tools with each request, so the same set comes again and again. An index of it takes longer to
build than a search takes: a millisecond for each tool with a long schema. So indexes are built in threads of their own,
and a search of a set that has its index waits for none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache
from ferrule.core.json_text import digest
from ferrule.core.tool import ToolDefinition
from ferrule.sources.search.tool_index import ToolIndex

_BYTES_PER_CHARACTER = 3
"""The definitions, which the index keeps, and the index of their words."""
_BUILDERS = ThreadPoolExecutor(2, thread_name_prefix="tool-index")
"""Two, so that a small set does not always wait for a large one. All finders share them."""


class ToolFinder:
    """Finds the tools that fit a text: `await finder(text, limit, tools)` returns names, the best first.

    Needs `pip install "ferrule[search]"`.

    Example:
        finder = ToolFinder()
        names = await finder("Will it rain?", 5, {tool.name: tool for tool in tools})
    """

    def __init__(self) -> None:
        self._indexes: ByteCache[str, ToolIndex] = ByteCache(_index_size)
        self._lock = Lock()
        self._builds: dict[str, Future[ToolIndex]] = {}

    async def __call__(self, text: str, limit: int, tools: Mapping[str, ToolDefinition]) -> Sequence[str]:
        key = digest(sorted(tool.fingerprint for tool in tools.values()))
        index = self._indexes.lookup(key)
        if index is None:
            # A request that is cancelled must not cancel what another waits for.
            index = await asyncio.shield(asyncio.wrap_future(self._build(key, tools)))
        return [match.tool.name for match in await asyncio.to_thread(index.search, text, limit)]

    def _build(self, key: str, tools: Mapping[str, ToolDefinition]) -> Future[ToolIndex]:
        """Build an index in a thread. Two requests with the same new set build one."""
        with self._lock:
            build = self._builds.get(key)
            if build is None:
                build = self._builds[key] = _BUILDERS.submit(self._build_now, key, tuple(tools.values()))
            return build

    def _build_now(self, key: str, tools: Sequence[ToolDefinition]) -> ToolIndex:
        try:
            # The last build of this set may have ended since the look-up.
            return self._indexes.get(key, lambda: ToolIndex(tools))
        finally:
            with self._lock:
                del self._builds[key]


def _index_size(key: str, index: ToolIndex) -> int:
    return ENTRY_BYTES * (1 + len(index)) + _BYTES_PER_CHARACTER * index.characters
