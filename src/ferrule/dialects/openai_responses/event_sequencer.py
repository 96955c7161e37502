"""EventSequencer: numbers the events of a response, applies them to a snapshot and hands them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferrule.dialects.extension import KEY
from ferrule.dialects.openai_responses.open_item import Events, OpenItem
from ferrule.dialects.openai_responses.snapshot import Snapshot, merge_extensions


class EventSequencer:
    """Add events one by one with `emit`, and take them out together with `drain`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._pending_extension: dict[str, Any] = {}
        self._out: Events = []

    @property
    def id(self) -> str:
        """The id of the response."""
        return self.snapshot.head["id"]

    @property
    def next_index(self) -> int:
        """The output index of the next item."""
        return len(self.snapshot.items)

    def drain(self) -> Events:
        events, self._out = self._out, []
        return events

    def add_extension(self, extension: Mapping[str, Any]) -> None:
        """Attach extension data to the next event, so that it is not lost if this process dies."""
        self._pending_extension = merge_extensions(self._pending_extension, extension)

    def emit(self, event: Mapping[str, Any]) -> None:
        extension = (
            merge_extensions(event.get(KEY, {}), self._pending_extension) if self._pending_extension else event.get(KEY)
        )
        self._pending_extension = {}
        numbered = {**event, "sequence_number": self.snapshot.number}
        if extension:
            numbered[KEY] = extension
        self.snapshot.apply(numbered)
        self._out.append(numbered)

    def emit_state(self, state: str, status: str) -> None:
        """Emit a state of the response before it has any output."""
        output: Events = []
        self.emit({"type": f"response.{state}", "response": {**self.snapshot.head, "status": status, "output": output}})

    def emit_last(self, state: str, status: str, **fields: Any) -> None:
        self.snapshot.add_extension(self._pending_extension)
        self._pending_extension = {}
        self.emit({"type": f"response.{state}", "response": self.snapshot.response(status, **fields)})

    def open_item(self, item: dict[str, Any]) -> OpenItem:
        for event in OpenItem(item, self.next_index).begin_events():
            self.emit(event)
        return self.snapshot.items[-1]

    def end_item(self, item: OpenItem, status: str, extension: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Emit the last events of an item. `extension` is attached to the very last."""
        *earlier, last = item.end_events(status, **fields)
        for event in earlier:
            self.emit(event)
        self.emit({**last, **(extension or {})})
