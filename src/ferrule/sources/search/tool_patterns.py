"""Find tools by a regular expression in their names and descriptions, and in those of their arguments.

The expression comes from a model, so it is matched without backtracking: the time is linear in the definitions.
Expressions that need backtracking, such as lookaround, are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import INVALID, MAX_PATTERN
from ferrule.errors import DefinitionError
from ferrule.schema.checker import pattern_finder

_MAX_CHARACTERS = 20_000


async def find_by_pattern(pattern: str, limit: int, tools: Mapping[str, ToolDefinition]) -> Sequence[str]:
    """Return the names of at most so many tools that match, those with a matching name first.

    Raises `DefinitionError` with the code `INVALID` for a pattern that cannot be searched.
    """
    return await asyncio.to_thread(_find, pattern, limit, tuple(tools.values()))


def _find(pattern: str, limit: int, tools: Sequence[ToolDefinition]) -> list[str]:
    if len(pattern) > MAX_PATTERN:
        raise DefinitionError(f"the pattern is longer than {MAX_PATTERN} characters", code=INVALID)
    try:
        matches = pattern_finder(pattern)
    except ValueError as error:
        raise DefinitionError(str(error), code=INVALID, hint="Write one without lookaround.") from error
    by_name = [tool.name for tool in tools if matches(tool.name)]
    if len(by_name) >= limit:
        return by_name[:limit]
    named = set(by_name)
    for tool in tools:
        if tool.name not in named and any(map(matches, _texts(tool))):
            by_name.append(tool.name)
            if len(by_name) >= limit:
                break
    return by_name


def _texts(tool: ToolDefinition) -> list[str]:
    """Return the description of a tool, and the names and descriptions of its arguments."""
    texts = [tool.description[:_MAX_CHARACTERS]]
    properties = tool.parameters.get("properties")
    for name, schema in cast("Mapping[str, Any]", properties if isinstance(properties, dict) else {}).items():
        description = cast("Mapping[str, Any]", schema).get("description") if isinstance(schema, dict) else None
        texts += [name, *([description[:_MAX_CHARACTERS]] if isinstance(description, str) else [])]
    return texts
