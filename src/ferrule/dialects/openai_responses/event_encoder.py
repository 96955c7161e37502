"""Encode one reply as the named events of a streamed response, for a server that runs no tools of its own.

The events are what the client's accumulator needs: the response first, an item before its deltas, a part before its
text, the same ids in the item's first and last event and in the whole response, and the whole response at the end.
"""

from __future__ import annotations

from ferrule.core.event import Event, Finish
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.open_item import Events
from ferrule.dialects.openai_responses.response_body import head_of
from ferrule.errors import FerruleError


class EventEncoder:
    """`request` is echoed in the response, as in OpenAI's API. The end of the reply is the end of the response."""

    def __init__(self, *, id: str, model: str, created: int, request: ToolCallRequest | None = None) -> None:
        self._encoder = HostedEncoder(head_of(id=id, model=model, created=created, request=request))

    def feed(self, event: Event) -> Events:
        events = self._encoder.feed(event)
        return events + self._encoder.finish() if isinstance(event, Finish) else events

    def close(self) -> Events:
        """End the open item of an answer that was cut off; the response itself gets no last event."""
        return self._encoder.close()

    def fail(self, error: FerruleError) -> Events:
        """End the response with an error."""
        return self._encoder.fail(error)
