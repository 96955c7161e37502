"""ToolAccess: what the operator says about a server's tools, by patterns of the server's own names for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """Patterns as in a shell: `*` stands for any characters, `?` for one.

    Without `allow`, all tools are offered. `deny` has precedence. Those of `read_only` have no side effects, whatever
    the server claims: their calls need no approval.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()

    def offers(self, tool: str) -> bool:
        return (not self.allow or _matches(tool, self.allow)) and not _matches(tool, self.deny)

    def only_reads(self, tool: str) -> bool:
        return _matches(tool, self.read_only)

    def unused(self, tools: Iterable[str]) -> Iterator[str]:
        """Messages about patterns that match no tool: a misspelt `deny` would offer what it should not."""
        names = list(tools)
        for key, patterns in (("allow", self.allow), ("deny", self.deny), ("readOnly", self.read_only)):
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in names):
                    yield f"{key} {pattern!r} matches no tool"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
