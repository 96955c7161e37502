"""StateUpdate: the state of a conversation as it is saved, in two parts that cost differently.

A state is JSON: the messages, and everything else. Messages are only ever appended, so they are rows of their own, and
saving a state writes the rows that are new. What it costs therefore does not depend on how long the conversation is.
In the stored state the number of messages stands where the messages were, in `messages` and in the unfinished turn's
`added`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """`messages` are those from number `first` on, as JSON; the ones before it are stored already.

    `rest` is the state with numbers in place of the messages.
    """

    rest: Any
    messages: Sequence[Any] = ()
    first: int = 0

    @property
    def count(self) -> int:
        """How many messages there are with these."""
        return self.first + len(self.messages)

    @staticmethod
    def of(state: Any) -> StateUpdate:
        """Return the update that saves a whole state, which may be any JSON."""
        whole: Mapping[str, Any] = cast("Mapping[str, Any]", state) if isinstance(state, Mapping) else {}
        messages: Any = whole.get("messages")
        loop: Any = whole.get("loop")
        if not isinstance(messages, list):
            return StateUpdate(state)
        own = cast("list[Any]", messages)
        added: list[Any] = cast("dict[str, Any]", loop).get("added", []) if loop else []
        rest = {**whole, "messages": len(own)}
        return StateUpdate({**rest, "loop": {**loop, "added": len(added)}} if loop else rest, [*own, *added])


def with_messages(rest: Any, messages: Sequence[Any]) -> Any:
    """Return the whole state. One that an earlier version has saved contains its messages already."""
    state: dict[str, Any] = cast("dict[str, Any]", rest) if isinstance(rest, dict) else {}
    if not isinstance(state.get("messages"), int):
        return cast("Any", rest)
    own, loop = state["messages"], state.get("loop")
    whole = {**state, "messages": list(messages[:own])}
    return {**whole, "loop": {**loop, "added": list(messages[own : own + loop["added"]])}} if loop else whole
