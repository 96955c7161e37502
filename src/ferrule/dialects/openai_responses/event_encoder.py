"""One reply of a model as the named events of a streamed response, for a server that runs no tools of its own.

The client's own accumulator decides what must come: the response first, an item before its deltas, a part before its
text, the same ids in the item's beginning, its end and the whole response, and the whole response at the end.
"""

from __future__ import annotations

from ferrule.core.event import Event, Finish
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.open_item import Told
from ferrule.dialects.openai_responses.response_body import head_of
from ferrule.errors import FerruleError


class EventEncoder:
    """`request` is echoed in the response, as the API does. Here the end of the reply is that of the response."""

    def __init__(self, *, id: str, model: str, created: int, request: ToolCallRequest | None = None) -> None:
        self._encoder = HostedEncoder(head_of(id=id, model=model, created=created, request=request))

    def feed(self, event: Event) -> Told:
        told = self._encoder.feed(event)
        return told + self._encoder.finish() if isinstance(event, Finish) else told

    def close(self) -> Told:
        """Ends the open item of an answer that broke off; the response itself is left without an end."""
        return self._encoder.close()

    def fail(self, error: FerruleError) -> Told:
        """Ends the response because of an error."""
        return self._encoder.fail(error)
