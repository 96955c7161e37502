"""Generated replies for every format: text, reasoning and calls full of markers and other hard values."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.json_schema import JsonSchema
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.tool import ToolDefinition
from ferrule.schema.notation import Notation
from ferrule.wire.format import Format
from ferrule.wire.node import Args, Calls, Fields, Free, Lit, Node, Seq, Think
from ferrule.wire.registry import all_formats
from ferrule.wire.renderer import arrange_parts

TOOLS = (
    ToolDefinition.build("get_weather")
    .parameter("city", JsonSchema.string(), required=True)
    .parameter("days", JsonSchema.integer())
    .parameter("unit", JsonSchema.enum(["celsius", "<b>", 'a"b']))
    .done(),
    ToolDefinition.build("search.files-2")
    .parameter("query", JsonSchema.string())
    .parameter("limit", JsonSchema.number())
    .parameter("exact", JsonSchema.boolean())
    .parameter("tags", JsonSchema.array(JsonSchema.string()))
    .parameter("options", {"type": "object"})
    .parameter("either", {"type": ["string", "integer"]})
    .parameter("maybe", {"anyOf": [{"type": "string"}, {"type": "null"}]})
    .parameter("anything", {})
    .done(),
    ToolDefinition.build("ping").done(),
)


def literals(node: Node) -> Iterator[str]:
    """Every form of every literal in a call."""
    match node:
        case Lit(spellings):
            yield from spellings
        case Seq(parts):
            for part in parts:
                yield from literals(part)
        case Fields(field, sep):
            yield from literals(field)
            yield from literals(sep)
            if node.quote:
                yield from node.quote
        case Args(notation):
            yield from (quote.open for quote in notation.quotes)
            yield node.opener
        case _:
            yield "{"


def own_markers(form: Format) -> set[str]:
    """Everything that a format could read as markup."""
    turn = form.reply
    markers: set[str] = set(form.stops) | {turn.fence}
    for item in (*turn.items, *turn.also):
        match item:
            case Think(open, close) | Free(open, close):
                markers.update(open.spellings if open else (), close.spellings if close else ())
            case Calls():
                markers.update(literals(item.call))
                for lit in (item.open, item.close):
                    markers.update(lit.spellings if lit else ())
    return {marker.strip() for marker in markers if marker.strip()}


ALL_MARKERS = sorted({marker for form in all_formats().values() for marker in own_markers(form)})

hard_text = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(ALL_MARKERS),
        st.sampled_from(
            ["\n", " ", '"', "'", "\\", "\\n", "{", "}", "<", "é😀", "null", "true", "1", "```", "\x00", "\u2028"]
        ),
    ),
    max_size=5,
).map("".join)
easy_text = st.text(alphabet=string.ascii_letters + " .,!?éß漢😀-_", min_size=1, max_size=20)
texts = st.one_of(hard_text, easy_text)

numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -1, 2**63, 2**64, 1e308, 5e-324, -0.0, 1.0]),
)
identifiers = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(identifiers | texts, inner, max_size=3),
    max_leaves=8,
)


def _nested(depth: int) -> Any:
    value: Any = {}
    for level in range(depth):
        value = {"k": value} if level % 2 else [value]
    return value


deep = st.integers(1, 60).map(_nested)

_OPTIONAL: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "get_weather": {"city": texts, "days": st.integers(), "unit": st.sampled_from(["celsius", "<b>", 'a"b'])},
    "search.files-2": {
        "query": texts,
        "limit": numbers,
        "exact": st.booleans(),
        "tags": st.lists(texts, max_size=3),
        "options": st.dictionaries(identifiers | texts, values | deep, max_size=3),
        "either": texts | st.integers(),
        "maybe": texts | st.none(),
        "anything": values,
    },
    "ping": {},
}
# Built once: building a strategy for each draw would take longer than the draw.
_NAMES = st.sampled_from(sorted(_OPTIONAL))
_ARGUMENTS = {name: st.fixed_dictionaries({}, optional=optional) for name, optional in _OPTIONAL.items()}


@st.composite
def calls(draw: st.DrawFn, form: Format, index: int) -> ToolCall:
    name = draw(_NAMES)
    arguments = draw(_ARGUMENTS[name])
    return ToolCall.of(name, arguments, id=form.ids.sample(name, index))


@st.composite
def replies(draw: st.DrawFn, form: Format, text: st.SearchStrategy[str] = texts) -> Reply:
    """A reply in the structure that the format writes."""
    turn = form.reply
    parts: list[ReplyPart] = []
    if any(isinstance(item, Think) for item in turn.items) and draw(st.booleans()):
        parts.append(Reasoning(draw(text)))
    if draw(st.booleans()):
        parts.append(Text(draw(text)))
    most = min(form.calls.max_calls or 3, 3)
    parts.extend(draw(calls(form, index)) for index in range(draw(st.integers(0, most))))
    if not turn.is_ordered:
        if draw(st.booleans()):
            parts.append(Reasoning(draw(text)))
        if draw(st.booleans()):
            parts.append(Text(draw(text)))
    return arrange_parts(form, Reply(tuple(parts)))


def notations(node: Node) -> Iterator[Notation]:
    match node:
        case Args(notation):
            yield notation
            if notation.objects:
                yield notation.objects
        case Seq(parts):
            for part in parts:
                yield from notations(part)
        case _:
            return


def strings_in(value: Any) -> Iterator[tuple[str, str]]:
    """Every string of a JSON value, with "key" or "value"."""
    if isinstance(value, str):
        yield "value", value
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield "key", key
            yield from strings_in(item)


def all_strings(reply: Reply) -> Iterator[tuple[str, str]]:
    for part in reply.parts:
        if isinstance(part, ToolCall):
            yield from strings_in(part.arguments)
        else:
            yield "value", part.text
