"""An engine that searches for a tool before it calls it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from ferrule.core.call import ToolCall
from ferrule.core.event import Event, Usage
from ferrule.core.reply import Reply, events_of
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import with_receipts
from ferrule.errors import EngineUnavailableError


class SearchingEngine(Engine):
    """A model that wants one tool: it searches until it may call it, calls it, and then answers."""

    traits = Traits(name="fake", honours=ALL_CHOICES)

    def __init__(self, wanted: str = "get_stock_7", query: str = "stock number 7", search: str = "find_tools") -> None:
        self.requests: list[ToolCallRequest] = []
        self.fails_after_search = False
        self._wanted = wanted
        self._query = query
        self._search = search

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        number = len(self.requests)
        names = [tool.name for tool in request.tools]
        results = {result.tool_call_id for message in request.messages for result in message.results}
        made = {call.id for message in request.messages for call in message.tool_calls if call.name == self._wanted}
        if self.fails_after_search and number == 2:
            raise EngineUnavailableError("it is gone")
        if made & results:
            reply = Reply.of(f"Done {number}.")
        elif self._wanted in names:
            reply = Reply.of("Here: ", ToolCall.of(self._wanted, {"id": "3"}, f"call_{number}"))
        elif self._search in names:
            reply = Reply.of("Let me look. ", ToolCall.of(self._search, {"query": self._query}, f"call_{number}"))
        else:
            reply = Reply.of("I cannot.")
        for event in events_of(with_receipts(replace(reply, usage=Usage(100, 10)))):
            yield event

    async def close(self) -> None:
        return
