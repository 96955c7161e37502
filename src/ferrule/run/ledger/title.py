"""What a conversation is known by in a list: the beginning of what was asked first. Knows no database.

A state can be long, and a list shows a hundred: it is read from its beginning, as far as the first thing asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ferrule.core.json_text import value_at
from ferrule.core.message import Role
from ferrule.core.message_json import messages_from_json
from ferrule.errors import DefinitionError
from ferrule.run.timeline_entry import title_of

BEGINNING = 4_096
"""So many characters of a state are read of every conversation,"""
LONGEST = 65_536
"""and so many where these do not tell: behind a long system prompt, say, or a turn that is not over."""


def title_in(state: str) -> str | None:
    """The title by the beginning of a state's text; empty where nothing was asked, None where it ends too early."""
    try:
        return title_by(_messages(state))
    except (ValueError, RecursionError):
        return None


def title_by(messages: Iterable[Any]) -> str:
    """The title by saved messages: the first that a user said, and that has words."""
    try:
        for held in messages:
            (message,) = messages_from_json([held])
            title = title_of(message.content) if message.role is Role.USER else ""
            if title:
                return title
    except (DefinitionError, TypeError):
        # A record that somebody spoiled is listed all the same.
        return ""
    return ""


def _messages(state: str) -> Iterator[object]:
    """Those that a state begins with, one by one. What is kept has no spaces between its tokens."""
    at = 0
    while state[at : at + 1] in ("{", ","):
        key, at = value_at(state, at + 1)
        if key == "messages":
            yield from _items(state, at + 1)
            return
        _, at = value_at(state, at + 1)
    _require_more(state, at)


def _items(text: str, at: int) -> Iterator[object]:
    while text[at : at + 1] in ("[", ",") and text[at + 1 : at + 2] != "]":
        item, at = value_at(text, at + 1)
        yield item
    _require_more(text, at)


def _require_more(text: str, at: int) -> None:
    """What ends between two values is as cut off as what ends within one."""
    if at >= len(text):
        raise ValueError("it is cut off")
