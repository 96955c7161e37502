"""Explanation: for one tool, the schema keywords that the grammar enforces, and the places where it does not.

If the engine receives the schema itself, only the engine knows what it enforces. The keywords are then listed as passed
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.tool import ToolDefinition
from ferrule.rules.relaxation import Loss, losses_of
from ferrule.schema.keywords import SUBSCHEMA_KEYWORDS, children
from ferrule.schema.pointer import escape, pointer_to
from ferrule.schema.target_limits import CONSTRAINT_KEYWORDS, hint_for


@dataclass(frozen=True, slots=True)
class Explanation:
    """`enforced` and `passed_on` are keywords; `checked_after` are places in the schema, each with a hint.

    If `passed_on` is not None, the engine receives the schema itself, and nothing else is claimed.
    """

    tool: str
    enforced: tuple[str, ...] = ()
    checked_after: tuple[tuple[Loss, str], ...] = ()
    passed_on: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, object]:
        after = [
            {"path": loss.path, "keyword": loss.keyword, "how": loss.reason, "hint": hint}
            for loss, hint in self.checked_after
        ]
        named = {"enforced": list(self.enforced), "passed_on": list(self.passed_on or ())}
        return {"tool": self.tool, **named, "checked_after": after}


def explanation_of(tool: ToolDefinition, encoding: str) -> Explanation:
    """Explain a target for which Ferrule emits a grammar, with the arguments written in `encoding`."""
    losses = losses_of(tool, encoding)
    enforced = _keywords_of(tool, {loss.path for loss in losses})
    return Explanation(tool.name, enforced, tuple((loss, hint_for(loss.keyword)) for loss in losses))


def explanation_of_passthrough(tool: ToolDefinition) -> Explanation:
    """Explain a target that receives the schema as it is."""
    return Explanation(tool.name, passed_on=_keywords_of(tool, set()))


def _keywords_of(tool: ToolDefinition, lost: set[str]) -> tuple[str, ...]:
    used: dict[str, None] = {}
    _collect(tool.parameters, "", lost, used)
    return tuple(used)


def _collect(schema: object, path: str, lost: set[str], used: dict[str, None]) -> None:
    """Collect the keywords of a schema, except where they are lost."""
    if not isinstance(schema, dict):
        return
    node = cast("dict[str, Any]", schema)
    used.update(
        dict.fromkeys(key for key in node if key in CONSTRAINT_KEYWORDS and f"{path}/{escape(key)}" not in lost)
    )
    for child in children(node):
        keyword = str(child.tokens[0])
        if f"{path}/{keyword}" not in lost and (
            SUBSCHEMA_KEYWORDS[keyword].applies_to != "nothing" or keyword == "$defs"
        ):
            _collect(child.schema, path + pointer_to(child.tokens), lost, used)
