"""Reduce replies to what a rule allows: arguments in the schema's order, and text only where the choice allows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.json_text import dumps
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply
from ferrule.core.request import ChoiceMode, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import opening_texts
from ferrule.wire.renderer import arrange_parts
from laws.replies import TOOLS, notations, own_markers

CHOICES = {
    "auto": ToolChoice.auto(),
    "required": ToolChoice.required(),
    "one": ToolChoice.one("get_weather"),
}
_BARE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def fit_reply(
    form: Format, choice: ToolChoice, reply: Reply, tools: tuple[ToolDefinition, ...] = TOOLS
) -> Reply | None:
    """The part of a reply that the choice allows, or None if nothing of it remains."""
    offered_tools = {tool.name: tool for tool in choice.select_tools(tools)}
    calls = [_in_order(call, offered_tools[call.name]) for call in reply.calls if call.name in offered_tools]
    calls = [replace(call, id=form.ids.sample(call.name, at)) for at, call in enumerate(filter(None, calls))]
    reasoning = [part for part in reply.parts if isinstance(part, Reasoning)][:1]
    texts = [part for part in reply.parts if isinstance(part, Text)][:1]
    if choice.mode is ChoiceMode.REQUIRED and not calls:
        return None
    if calls and (choice.mode is ChoiceMode.REQUIRED or form.calls.only_offered):
        texts = []
    return arrange_parts(form, Reply((*reasoning, *texts, *calls)))


def _in_order(call: ToolCall, tool: ToolDefinition) -> ToolCall | None:
    arguments = call.arguments
    if not all(name in arguments for name in tool.required):
        return None
    ordered = {name: arguments[name] for name in tool.properties if name in arguments}
    return replace(call, function=replace(call.function, arguments=dumps(ordered)))


def keys_in(value: Any) -> Iterator[str]:
    """Every key of every object in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_in(inner)


def is_expressible(form: Format, reply: Reply) -> bool:
    """Whether the rule is supposed to admit the reply.

    It is not if reasoning or text contains markup of the format, if an answer begins like a call that has no marker, if
    an unquoted key is more than a name, or if the reply is only reasoning.
    """
    if all(isinstance(part, Reasoning) for part in reply.parts):
        return False
    markers = own_markers(form)
    texts = [part.text for part in reply.parts if not isinstance(part, ToolCall)]
    if any(marker in text for text in texts for marker in markers):
        return False
    if form.calls.only_offered and reply.text.startswith(tuple(opening_texts(form.calls))):
        return False
    has_bare_keys = any(notation.has_bare_keys for notation in notations(form.calls.call))
    keys = [key for call in reply.calls for key in keys_in(call.arguments)]
    return not has_bare_keys or all(_BARE.fullmatch(key) for key in keys)
