"""The title of a conversation in a list: the beginning of its first user message. Independent of the database.

It is stored with the conversation. The states of earlier versions contain their messages and can be long: there only
the beginning is read, up to the first user message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ferrule.core.json_text import value_at
from ferrule.core.message import Role, messages_from_json
from ferrule.errors import DefinitionError
from ferrule.run.timeline_entry import title_of

PREFIX_CHARS = 65_536
"""How many characters of a state are read: the message may come after a long system prompt, or an unfinished turn."""


def title_of_state(state: str) -> str | None:
    """Return the title from the beginning of a state; empty if there is no user message, None if it ends too early."""
    try:
        return title_of_messages(_messages(state))
    except (ValueError, RecursionError):
        return None


def title_of_messages(messages: Iterable[Any]) -> str:
    """Return the title from saved messages: that of the first user message that is not blank."""
    try:
        for data in messages:
            (message,) = messages_from_json([data])
            title = title_of(message.content) if message.role is Role.USER else ""
            if title:
                return title
    except (DefinitionError, TypeError):
        # A damaged record is listed without a title.
        return ""
    return ""


def _messages(state: str) -> Iterator[object]:
    """Yield the messages at the beginning of a state, one by one. Stored JSON has no spaces between its tokens."""
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
    """Raise if the text ends here: it is cut off between two values."""
    if at >= len(text):
        raise ValueError("the text is cut off")
