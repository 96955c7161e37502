"""Snapshot: a response as the events so far have told it. The fold of the events, like a reply is that of its own.

An encoder keeps its state in one and nowhere else, so that it can be rebuilt from what it told before a process died.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ferrule.core.event import Usage
from ferrule.dialects.extension import KEY
from ferrule.dialects.openai_responses.open_item import OpenItem
from ferrule.dialects.openai_responses.response_body import usage_body

_LIFE = ("created", "queued", "in_progress", "completed", "incomplete", "failed")
_LIFE_EVENTS = frozenset(f"response.{state}" for state in _LIFE)
_LAST_EVENTS = frozenset(f"response.{state}" for state in ("completed", "incomplete", "failed"))
_USAGE = "usage"
_KEPT = (_USAGE, "receipts", "incomplete", "diagnostics", "error")
_STATE = ("status", "output", KEY)


class Snapshot:
    """`head` is what is the same in every state of the response; where it is not given, the first event has it."""

    def __init__(self, head: Mapping[str, Any] | None = None) -> None:
        self.head: dict[str, Any] = dict(head or {})
        self.items: list[OpenItem] = []
        self.number = 0
        """That of the next event."""
        self._status = ""
        self._seen: set[str] = set()
        self._last: dict[str, Any] | None = None
        self._told: dict[str, Any] = {}

    @staticmethod
    def of(events: Iterable[dict[str, Any]]) -> Snapshot:
        snapshot = Snapshot()
        for event in events:
            snapshot.take(event)
        return snapshot

    @property
    def is_over(self) -> bool:
        return self._last is not None

    def has_been(self, state: str) -> bool:
        return f"response.{state}" in self._seen

    @property
    def open_items(self) -> list[OpenItem]:
        return [item for item in self.items if not item.is_done]

    def take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        self.number += 1
        if KEY in event:
            self.note(event[KEY])
        if kind in _LIFE_EVENTS:
            self._live(kind, event["response"])
        elif kind == "response.output_item.added":
            self.items.append(OpenItem(event["item"], event["output_index"]))
        elif "output_index" in event:
            at: int = event["output_index"]
            self.items[at].take(event)

    def note(self, told: Mapping[str, Any]) -> None:
        """Adds to what is told at the end: receipts, incomplete calls, diagnostics, and the tokens of a round."""
        self._told = together(self._told, {key: told[key] for key in _KEPT if key in told})

    def response(self, status: str = "", **fields: Any) -> dict[str, Any]:
        """The whole response as of now, or with this status."""
        if self._last is not None:
            return self._last
        output = [item.whole() for item in self.items]
        told = {key: value for key, value in self._told.items() if key != _USAGE}
        usage = usage_body(Usage(**self._told[_USAGE])) if _USAGE in self._told else None
        extension = {KEY: told} if told else {}
        state = {"status": status or self._status, "output": output, "usage": usage}
        return {**self.head, **state, **extension, **fields}

    def _live(self, kind: str, response: dict[str, Any]) -> None:
        self._seen.add(kind)
        self._status = response["status"]
        if not self.head:
            self.head = {key: value for key, value in response.items() if key not in _STATE}
        if kind in _LAST_EVENTS:
            self._last = response


def together(before: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Two extensions as one: lists and objects grow, and the tokens of rounds are summed."""
    found = dict(before)
    for key, value in told.items():
        earlier = before.get(key)
        if key == _USAGE and earlier:
            found[key] = {name: earlier[name] + count for name, count in value.items()}
        elif isinstance(value, list):
            found[key] = [*(earlier or []), *cast("list[Any]", value)]
        elif isinstance(value, dict):
            found[key] = {**(earlier or {}), **cast("dict[str, Any]", value)}
        else:
            found[key] = value
    return found
