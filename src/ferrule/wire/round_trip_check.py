"""Parse rendered text again, and raise if the result differs from what was rendered."""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.tool import ToolDefinition
from ferrule.errors import UnrenderableError
from ferrule.schema.value_text import loads_verbatim
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import plan_of
from ferrule.wire.parser import parse
from ferrule.wire.part_order import arrange_parts


def check_round_trip(
    format: Format, reply: Reply, text: str, tools: Iterable[ToolDefinition] | None, calls_before: int
) -> None:
    """Raise `UnrenderableError` that names the first part of the reply that parsing `text` does not give back."""
    expected = arrange_parts(format, reply).parts
    actual = parse(format, text, tools, calls_before=calls_before).parts
    ids_are_written = plan_of(format).writes_ids
    for place, part in enumerate(expected):
        if place >= len(actual) or not is_same_part(part, actual[place], ids_are_written):
            raise UnrenderableError(
                "it contains text that this format parses as markup",
                where=_name(part),
                hint="This format has no way to write such text: quote it or change it.",
            )
    if len(actual) > len(expected):
        raise UnrenderableError(
            "parsing it again would give more parts than were rendered", where=_name(actual[len(expected)])
        )


def is_same_part(expected: ReplyPart, actual: ReplyPart, with_ids: bool) -> bool:
    """Whether two parts are equal in meaning. Ids count only if the format writes them and one was expected."""
    if not isinstance(expected, ToolCall) or not isinstance(actual, ToolCall):
        return expected == actual
    if with_ids and expected.id and expected.id != actual.id:
        return False
    if (expected.name, expected.complete) != (actual.name, actual.complete):
        return False
    # Compared as values, because some families sort the keys; numbers are compared as they are written.
    return loads_verbatim(expected.function.arguments) == loads_verbatim(actual.function.arguments)


def _name(part: ReplyPart) -> str:
    return f"the call of {part.name!r}" if isinstance(part, ToolCall) else part.__class__.__name__.lower()
