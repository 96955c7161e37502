"""Replies cut down to what a rule lets a model write: arguments in the schema's order, and text where there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.json_text import dumps
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import opening
from ferrule.wire.part_order import arranged
from laws.replies import TOOLS, notations, own_markers

CHOICES = {
    "auto": ToolChoice.auto(),
    "required": ToolChoice.required(),
    "one": ToolChoice.one("get_weather"),
}
_BARE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def fitted(form: Format, choice: ToolChoice, reply: Reply, tools: tuple[ToolDefinition, ...] = TOOLS) -> Reply | None:
    """The reply as far as the choice allows it, or None when nothing is left of it."""
    offered = {tool.name: tool for tool in choice.offered(tools)}
    calls = [_in_order(call, offered[call.name]) for call in reply.calls if call.name in offered]
    calls = [replace(call, id=form.ids.sample(call.name, at)) for at, call in enumerate(filter(None, calls))]
    thoughts = [part for part in reply.parts if isinstance(part, Reasoning)][:1]
    texts = [part for part in reply.parts if isinstance(part, Text)][:1]
    if choice.mode is ChoiceMode.REQUIRED and not calls:
        return None
    if calls and (choice.mode is ChoiceMode.REQUIRED or form.calls.only_offered):
        texts = []
    return arranged(form, Reply((*thoughts, *texts, *calls)))


def _in_order(call: ToolCall, tool: ToolDefinition) -> ToolCall | None:
    arguments = call.arguments
    if not all(name in arguments for name in tool.required):
        return None
    ordered = {name: arguments[name] for name in tool.properties if name in arguments}
    return replace(call, function=replace(call.function, arguments=dumps(ordered)))


def keys_in(value: Any) -> Iterator[str]:
    """Every key of every object in a JSON value."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield key
            yield from keys_in(held)
    elif isinstance(value, list):
        for held in value:
            yield from keys_in(held)


def is_sayable(form: Format, reply: Reply) -> bool:
    """Whether the rule means to admit the reply.

    It does not where reasoning or text holds markup of the format, an answer begins like a call that has no marker, a
    bare key is more than a name, or nothing is said but reasoning.
    """
    if all(isinstance(part, Reasoning) for part in reply.parts):
        return False
    markers = own_markers(form)
    spoken = [part.text for part in reply.parts if not isinstance(part, ToolCall)]
    if any(marker in text for text in spoken for marker in markers):
        return False
    if form.calls.only_offered and reply.text.startswith(tuple(opening(form.calls))):
        return False
    has_bare_keys = any(notation.has_bare_keys for notation in notations(form.calls.call))
    keys = [key for call in reply.calls for key in keys_in(call.arguments)]
    return not has_bare_keys or all(_BARE.fullmatch(key) for key in keys)
