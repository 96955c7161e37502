"""What there is to say about one tool: the keywords that hold while decoding, and the places where one does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.tool import ToolDefinition
from ferrule.rules.widen import Loss, losses_of
from ferrule.schema.keywords import PLACES, children
from ferrule.schema.limits import LIMITS, hint_for
from ferrule.schema.pointer import escape, pointer_to

_KEYWORDS = frozenset(row.keyword for rows in LIMITS.values() for row in rows) | {"format"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """`enforced` are keywords; `checked_after` are places, each with what to change there."""

    tool: str
    enforced: tuple[str, ...]
    checked_after: tuple[tuple[Loss, str], ...]

    def as_dict(self) -> dict[str, object]:
        after = [
            {"path": loss.path, "keyword": loss.keyword, "how": loss.how, "hint": hint}
            for loss, hint in self.checked_after
        ]
        return {"tool": self.tool, "enforced": list(self.enforced), "checked_after": after}


def explanation_of(tool: ToolDefinition, encoding: str) -> Explanation:
    losses = losses_of(tool, encoding)
    lost = {loss.path for loss in losses}
    used: dict[str, None] = {}
    _collect(tool.parameters, "", lost, used)
    return Explanation(tool.name, tuple(used), tuple((loss, hint_for(loss.keyword)) for loss in losses))


def _collect(schema: object, path: str, lost: set[str], used: dict[str, None]) -> None:
    """The keywords that stand anywhere in a schema and are not lost there."""
    if not isinstance(schema, dict):
        return
    node = cast("dict[str, Any]", schema)
    used.update(dict.fromkeys(key for key in node if key in _KEYWORDS and f"{path}/{escape(key)}" not in lost))
    for child in children(node):
        keyword = str(child.tokens[0])
        if f"{path}/{keyword}" not in lost and (PLACES[keyword].reach != "apart" or keyword == "$defs"):
            _collect(child.schema, path + pointer_to(child.tokens), lost, used)
