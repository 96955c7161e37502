"""Sets of many tools, and a search by words that needs no index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.tool import ToolDefinition
from ferrule.run.search_tool import SEARCH_NAME

NOUNS = ("weather", "order", "mail", "file", "ticket", "flight", "hotel", "song", "map", "stock")


def many_tools(count: int, description: str = "") -> tuple[ToolDefinition, ...]:
    """Tools such as `get_weather_3`; ten of a kind for each ten of `count`."""
    return tuple(
        ToolDefinition(
            f"get_{NOUNS[number % len(NOUNS)]}_{number // len(NOUNS)}",
            description or f"Returns the {NOUNS[number % len(NOUNS)]} with the number {number // len(NOUNS)}.",
            {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        )
        for number in range(count)
    )


class WordFinder:
    """Finds the tools with the most words of the text in their names. Records the `texts`."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, text: str, limit: int, tools: Mapping[str, ToolDefinition]) -> Sequence[str]:
        self.texts.append(text)
        words = set(text.replace("_", " ").split())
        scores = {name: len(words & set(name.split("_"))) for name in tools}
        return sorted((name for name in tools if scores[name]), key=lambda name: -scores[name])[:limit]


def search_call(query: str, id: str = "call_s", name: str = SEARCH_NAME) -> ToolCall:
    """A call of the search, as a model writes it."""
    return ToolCall(id, FunctionCall(name, {"query": query}))
