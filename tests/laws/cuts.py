"""A reply with two calls for every format, and what must be equal however its text is split."""

from __future__ import annotations

from functools import cache

from ferrule.core.call import ToolCall
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply
from ferrule.wire.format import Format
from ferrule.wire.node import Think
from ferrule.wire.renderer import arrange_parts, render
from laws.replies import TOOLS


def two_calls(form: Format) -> Reply:
    """Reasoning, text and two calls with hard values, as far as the format supports them."""
    sample = form.ids.sample
    calls = (
        ToolCall.of("get_weather", {"city": "Pa\"r'is \\ é😀\nline 2", "days": 2}, id=sample("get_weather", 0)),
        ToolCall.of(
            "search.files-2",
            {
                "query": "a & b",
                "limit": 1.5,
                "exact": True,
                "tags": ["x", ""],
                "options": {"n": None, "deep": [[1], {}]},
            },
            id=sample("search.files-2", 1),
        ),
    )
    thinks = any(isinstance(item, Think) for item in form.reply.items)
    parts = ((Reasoning("hm.\nwell"),) if thinks else (), (Text("Let me look.\n"),), calls[: form.calls.max_calls])
    return arrange_parts(form, Reply(tuple(part for group in parts for part in group)))


@cache
def two_call_text(form: Format) -> str:
    return render(form, two_calls(form), TOOLS)


def essence(reply: Reply) -> object:
    """Everything in a reply except the generated ids."""
    parts = [
        (part.name, part.function.arguments, part.complete) if isinstance(part, ToolCall) else part
        for part in reply.parts
    ]
    notes: dict[str, str] = {}
    for note in reply.diagnostics:
        notes[note.code] = notes.get(note.code, "") + note.text
    return parts, notes
