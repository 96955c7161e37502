"""Facts for choosing a format, all derived from its definition."""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.core.json_text import dumps
from ferrule.wire.format import Format, encoding_of
from ferrule.wire.node import Think
from ferrule.wire.parse_plan import plan_of
from ferrule.wire.registry import all_formats, families_of_formats


@dataclass(frozen=True, slots=True)
class FormatFacts:
    """`family` is the module that defines it; None if another package does. `ids` is the form of its call ids."""

    name: str
    family: str | None
    about: str
    arguments: str
    reasoning: bool
    ids: str
    writes_ids: bool
    markers: tuple[str, ...]


def facts_of(format: Format) -> FormatFacts:
    homes = (family for family, members in families_of_formats().items() if format in members)
    return FormatFacts(
        name=format.name,
        family=next(homes, None),
        about=format.about,
        arguments=encoding_of(format),
        reasoning=any(isinstance(item, Think) for item in format.reply.items),
        ids=format.ids.name,
        writes_ids=plan_of(format).writes_ids,
        markers=format.markers,
    )


def all_facts() -> list[FormatFacts]:
    return [facts_of(format) for format in all_formats().values()]


def legible(texts: tuple[str, ...]) -> str:
    """Join texts. A text with whitespace is quoted as JSON, to show where it begins and ends."""
    return "  ".join(dumps(text) if any(map(str.isspace, text)) else text for text in texts)
