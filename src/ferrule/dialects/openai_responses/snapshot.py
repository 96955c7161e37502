"""Snapshot: a response as of the events so far, that is, the fold of its events.

An encoder keeps its state only in a snapshot, so that another process can rebuild it from the stored events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ferrule.core.event import Usage
from ferrule.dialects.extension import KEY
from ferrule.dialects.openai_responses.open_item import OpenItem
from ferrule.dialects.openai_responses.response_body import usage_body

_STATES = ("created", "queued", "in_progress", "completed", "incomplete", "failed")
_STATE_EVENTS = frozenset(f"response.{state}" for state in _STATES)
_LAST_EVENTS = frozenset(f"response.{state}" for state in ("completed", "incomplete", "failed"))
_USAGE = "usage"
_EXTENSION_KEYS = (_USAGE, "receipts", "incomplete", "diagnostics", "error")
_VARIABLE_FIELDS = ("status", "output", KEY)


class Snapshot:
    """`head` are the fields that never change; without it, they are taken from the first event."""

    def __init__(self, head: Mapping[str, Any] | None = None) -> None:
        self.head: dict[str, Any] = dict(head or {})
        self.items: list[OpenItem] = []
        self.number = 0
        """The sequence number of the next event."""
        self._status = ""
        self._applied: set[str] = set()
        self._last: dict[str, Any] | None = None
        self._extension: dict[str, Any] = {}

    @staticmethod
    def of(events: Iterable[dict[str, Any]]) -> Snapshot:
        snapshot = Snapshot()
        for event in events:
            snapshot.apply(event)
        return snapshot

    @property
    def is_over(self) -> bool:
        return self._last is not None

    def has_state(self, state: str) -> bool:
        return f"response.{state}" in self._applied

    @property
    def open_items(self) -> list[OpenItem]:
        return [item for item in self.items if not item.is_done]

    def apply(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        self.number += 1
        if KEY in event:
            self.add_extension(event[KEY])
        if kind in _STATE_EVENTS:
            self._apply_state(kind, event["response"])
        elif kind == "response.output_item.added":
            self.items.append(OpenItem(event["item"], event["output_index"]))
        elif "output_index" in event:
            index: int = event["output_index"]
            self.items[index].apply(event)

    def add_extension(self, extension: Mapping[str, Any]) -> None:
        """Add extension data for the last event: receipts, incomplete calls, diagnostics, and the tokens of a round."""
        self._extension = merge_extensions(
            self._extension, {key: extension[key] for key in _EXTENSION_KEYS if key in extension}
        )

    def response(self, status: str = "", **fields: Any) -> dict[str, Any]:
        """Return the whole response as of now, or with this status."""
        if self._last is not None:
            return self._last
        output = [item.as_item() for item in self.items]
        extension = {key: value for key, value in self._extension.items() if key != _USAGE}
        usage = usage_body(Usage(**self._extension[_USAGE])) if _USAGE in self._extension else None
        extension = {KEY: extension} if extension else {}
        state = {"status": status or self._status, "output": output, "usage": usage}
        return {**self.head, **state, **extension, **fields}

    def _apply_state(self, kind: str, response: dict[str, Any]) -> None:
        self._applied.add(kind)
        self._status = response["status"]
        if not self.head:
            self.head = {key: value for key, value in response.items() if key not in _VARIABLE_FIELDS}
        if kind in _LAST_EVENTS:
            self._last = response


def merge_extensions(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two extensions: lists and objects are joined, and the tokens of rounds are added up."""
    merged = dict(before)
    for key, value in after.items():
        earlier = before.get(key)
        if key == _USAGE and earlier:
            merged[key] = {name: earlier.get(name, 0) + count for name, count in value.items()}
        elif isinstance(value, list):
            merged[key] = [*(earlier or []), *cast("list[Any]", value)]
        elif isinstance(value, dict):
            merged[key] = {**(earlier or {}), **cast("dict[str, Any]", value)}
        else:
            merged[key] = value
    return merged
