"""The tool by which a model finds the tools that its prompt does not list, and the directory in its description."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import MAX_PATTERN, DeclaredSearch

SEARCH_NAME = "find_tools"
QUERY = "query"
_NAMES = (SEARCH_NAME, "search_tools", "find_more_tools")
_DIRECTORY_SOURCES = 40
_DESCRIPTION = 200
_READ = 1_000
"""How much of a description is read for its first words."""
_DIRECTORY_NAMES = 100
"""About how many characters of names a line of the directory has."""
_DIRECTORY_SHARE = 8
"""The directory takes an eighth of the budget: what it takes is missing for the tools that are preselected."""
_DIRECTORY_LEAST = 500
_WORDS = {"type": "string", "description": "What the tool should do, in a few words."}
_SOURCE = re.compile(r"__|\.|-|/")


def search_tool(
    tools: Mapping[str, ToolDefinition],
    deferred: Sequence[str],
    source_of: Callable[[str], str] | None,
    budget: int,
) -> ToolDefinition:
    """Return the tool that searches. A tool of the request that has its name keeps it."""
    name = next((one for one in _NAMES if one not in tools), "")
    number = 2
    while not name:
        name = "" if f"{SEARCH_NAME}_{number}" in tools else f"{SEARCH_NAME}_{number}"
        number += 1
    description = (
        f"Finds tools: {len(deferred)} more are available. Say in a few words what you want to do; the tools that fit "
        "can be called afterwards. Search only if no other tool of this list does it.\n"
        f"{_directory(deferred, source_of, _directory_space(budget))}"
    )
    return ToolDefinition(name, description, _parameters(_WORDS))


def declared_search_tool(
    tools: Mapping[str, ToolDefinition],
    deferred: Sequence[str],
    declared: DeclaredSearch,
    budget: int,
) -> ToolDefinition:
    """Return the tool by which a model uses the search that a client declared."""
    name = declared.name
    while name in tools:
        name = f"{name}_"
    if declared.takes_pattern:
        how = (
            "Write a regular expression of Python. It is searched in the names and descriptions of the tools and of "
            "their arguments; (?i) ignores case."
        )
        query = {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN, "description": "A regular expression."}
    else:
        how = "Say in a few words what you want to do."
        query = _WORDS
    space = _directory_space(budget)
    directory = _directory(deferred, lambda one: declared.namespaces.get(one, ""), space, declared.descriptions)
    description = (
        f"Finds tools: {len(deferred)} more are available. {how} The tools that fit can be called afterwards. "
        f"Search only if no other tool of this list does it.\n{directory}"
    )
    return ToolDefinition(name, description, _parameters(query))


def _parameters(query: Mapping[str, Any]) -> dict[str, Any]:
    properties = {QUERY: query}
    return {"type": "object", "properties": properties, "required": [QUERY], "additionalProperties": False}


def _directory_space(budget: int) -> int:
    """Return how many characters the directory may take."""
    return max(budget // _DIRECTORY_SHARE, _DIRECTORY_LEAST)


def _directory(
    names: Sequence[str],
    source_of: Callable[[str], str] | None,
    space: int,
    descriptions: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a line per source: its name, how many tools it has, and the first ones.

    Only names: they are short, and no description of a stranger stands in every prompt. `descriptions` are those that
    the client itself gives its namespaces; they stand in place of names. If the lines take more than `space`, it is one
    line, of the sources alone.
    """
    sources: dict[str, list[str]] = {}
    for name in names:
        source = source_of(name) if source_of is not None else ""
        sources.setdefault(source or _prefix(name), []).append(name)
    # A source of one tool is no group; together they are one.
    single = [own[0] for source, own in sources.items() if len(own) == 1 and source not in descriptions]
    groups = {source: own for source, own in sources.items() if len(own) > 1 or source in descriptions}
    if single:
        groups["others"] = [*groups.get("others", ()), *single]
    shown = list(groups.items())[:_DIRECTORY_SOURCES]
    lines = [
        f"- {source} ({len(own)}): {_one_line(descriptions.get(source, '')) or _first_names(own)}"
        for source, own in shown
    ]
    if len(groups) > len(shown):
        lines.append(f"- {len(groups) - len(shown)} more sources")
    text = "\n".join(lines)
    return text if len(text) <= space else _sources_alone(groups, space)


def _sources_alone(groups: Mapping[str, Sequence[str]], space: int) -> str:
    """Return the sources in one line, as many as there is space for."""
    text = "From"
    for number, (source, own) in enumerate(groups.items()):
        one = f"{',' if number else ''} {source} ({len(own)})"
        if number and len(text) + len(one) > space:
            return f"{text}, and {len(groups) - number} more sources"
        text += one
    return text


def _one_line(text: str) -> str:
    return " ".join(text[:_READ].split())[:_DESCRIPTION]


def _prefix(name: str) -> str:
    match = _SOURCE.search(name)
    return name[: match.start()] if match and match.start() else "others"


def _first_names(names: Sequence[str]) -> str:
    text = names[0]
    for count, name in enumerate(names[1:], 1):
        if len(text) + len(name) > _DIRECTORY_NAMES:
            return f"{text}, ..." if count < len(names) else text
        text = f"{text}, {name}"
    return text
