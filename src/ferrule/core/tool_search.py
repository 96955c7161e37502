"""The search among deferred tools that a client declares in the way of its API: OpenAI's or Anthropic's.

The client says which tools are deferred. What a search found stands in its history, and in the answer, in the shapes of
that API. Among messages a search is a call of the type `TOOL_SEARCH` and its result, which begins with `found_text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall, ToolResult
from ferrule.core.event import ToolSearch

REGEX = "tool_search_tool_regex"
"""The name of the search whose queries are regular expressions."""
MAX_PATTERN = 200
"""How many characters such an expression may have."""
INVALID, UNAVAILABLE, TOO_MANY = "invalid_tool_input", "unavailable", "too_many_requests"
_ERRORS = {
    INVALID: f"Not searched: the query is not a regular expression of at most {MAX_PATTERN} characters.",
    UNAVAILABLE: "Not searched: the search is not available now. Call a tool, or answer.",
    TOO_MANY: "Not searched: this answer has had as many searches as it may have. Call a tool, or answer.",
}
_FOUND = "Call one of these tools now: "


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSearch:
    """A search that the client declared. `name` is the client's name for it, `deferred` are the tools it is for.

    `namespaces` are the namespaces of the tools that have one, and `names` their names there, both by the names that
    the model uses. `descriptions` are those of the namespaces.
    """

    name: str
    deferred: frozenset[str]
    namespaces: Mapping[str, str] = field(default_factory=dict[str, str])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def takes_pattern(self) -> bool:
        """Whether a query is a regular expression and not a text."""
        return self.name == REGEX

    def as_json(self) -> dict[str, Any]:
        mappings = {"namespaces": self.namespaces, "names": self.names, "descriptions": self.descriptions}
        return {
            "name": self.name,
            "deferred": sorted(self.deferred),
            **{name: dict(value) for name, value in mappings.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DeclaredSearch:
        values: dict[str, Any] = {**data, "deferred": frozenset(cast("list[str]", data["deferred"]))}
        return DeclaredSearch(**values)


def found_text(names: Iterable[str]) -> str:
    """Return the first line of the result of a search that found these tools; empty if it found none."""
    joined = ", ".join(names)
    return f"{_FOUND}{joined}." if joined else ""


def found_names(text: str) -> tuple[str, ...]:
    """Return the names of the tools that a search found, from its result."""
    first = text.split("\n", 1)[0]
    return tuple(first.removeprefix(_FOUND).removesuffix(".").split(", ")) if first.startswith(_FOUND) else ()


def nothing_found(query: str) -> str:
    return f"No tool fits {query[:200]!r}. Search for something else, or answer without a tool."


def error_text(code: str) -> str:
    """Return what the model reads of a search that failed. The codes are those of Anthropic's SDK."""
    return _ERRORS[code if code in _ERRORS else UNAVAILABLE]


def error_of(text: str) -> str:
    """Return the code of a search that failed, from its result; empty if it did not fail."""
    return next((code for code, error in _ERRORS.items() if error == text), "")


def read_search(name: str, id: str, arguments: str, query: str, found: tuple[str, ...], error: str = "") -> ToolSearch:
    """Return a search of a client's history. The tools are described where the prompt is planned."""
    text = error_text(error) if error else found_text(found) or nothing_found(query)
    call = ToolCall(id, FunctionCall(name, arguments), TOOL_SEARCH)
    return ToolSearch(call, ToolResult(id, name, text), found, name, error)
