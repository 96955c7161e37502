"""Read back what was rendered, and refuse it when it came back as something else."""

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
from ferrule.wire.part_order import arranged


def check_reads_back(
    format: Format, reply: Reply, text: str, tools: Iterable[ToolDefinition] | None, calls_before: int
) -> None:
    """`UnrenderableError` naming the first part that a reader of `text` would not get."""
    wanted = arranged(format, reply).parts
    got = parse(format, text, tools, calls_before=calls_before).parts
    ids_are_written = plan_of(format).writes_ids
    for place, part in enumerate(wanted):
        if place >= len(got) or not says_the_same(part, got[place], ids_are_written):
            raise UnrenderableError(
                "it contains something that this format reads as markup",
                where=_name(part),
                hint="Models of this family cannot be shown such a text as it is: quote or change it.",
            )
    if len(got) > len(wanted):
        raise UnrenderableError("more would be read than was written", where=_name(got[len(wanted)]))


def says_the_same(wanted: ReplyPart, got: ReplyPart, with_ids: bool) -> bool:
    """Whether two parts mean the same; an id counts where the wire carries it and one was wanted."""
    if not isinstance(wanted, ToolCall) or not isinstance(got, ToolCall):
        return wanted == got
    if with_ids and wanted.id and wanted.id != got.id:
        return False
    if (wanted.name, wanted.complete) != (got.name, got.complete):
        return False
    # As values, because some families sort the keys; numbers are compared as they were written.
    return loads_verbatim(wanted.function.arguments) == loads_verbatim(got.function.arguments)


def _name(part: ReplyPart) -> str:
    return f"the call of {part.name!r}" if isinstance(part, ToolCall) else part.__class__.__name__.lower()
