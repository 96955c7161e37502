"""Teller: numbers the events of a response, keeps what they told, and gives them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferrule.dialects.extension import KEY
from ferrule.dialects.openai_responses.open_item import OpenItem, Told
from ferrule.dialects.openai_responses.snapshot import Snapshot, together


class Teller:
    """Events are told here one by one and taken out together."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._note: dict[str, Any] = {}
        self._out: Told = []

    @property
    def id(self) -> str:
        """The response's."""
        return self.snapshot.head["id"]

    @property
    def place(self) -> int:
        """That of the next item."""
        return len(self.snapshot.items)

    def taken(self) -> Told:
        taken, self._out = self._out, []
        return taken

    def note(self, told: Mapping[str, Any]) -> None:
        """Rides on the next event, so that it is not lost with this process."""
        self._note = together(self._note, told)

    def tell(self, event: Mapping[str, Any]) -> None:
        extension = together(event.get(KEY, {}), self._note) if self._note else event.get(KEY)
        self._note = {}
        told = {**event, "sequence_number": self.snapshot.number}
        if extension:
            told[KEY] = extension
        self.snapshot.take(told)
        self._out.append(told)

    def live(self, state: str, status: str) -> None:
        """A step in the response's own life, before there is anything in it."""
        output: Told = []
        self.tell({"type": f"response.{state}", "response": {**self.snapshot.head, "status": status, "output": output}})

    def last(self, state: str, status: str, **fields: Any) -> None:
        self.snapshot.note(self._note)
        self._note = {}
        self.tell({"type": f"response.{state}", "response": self.snapshot.response(status, **fields)})

    def open(self, item: dict[str, Any]) -> OpenItem:
        for event in OpenItem(item, self.place).begun():
            self.tell(event)
        return self.snapshot.items[-1]

    def end(self, item: OpenItem, status: str, extension: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """`extension` rides on the item's last event."""
        *said, last = item.ended(status, **fields)
        for event in said:
            self.tell(event)
        self.tell({**last, **(extension or {})})
