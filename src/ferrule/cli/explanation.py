"""What there is to say about one tool: the keywords that hold while decoding, and the places where one does not.

Where the engine is given the schema itself, only it knows what holds: then the keywords are said to be passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.tool import ToolDefinition
from ferrule.rules.relaxation import Loss, losses_of
from ferrule.schema.keywords import PLACES, children
from ferrule.schema.pointer import escape, pointer_to
from ferrule.schema.target_limits import TELLING_KEYWORDS, hint_for


@dataclass(frozen=True, slots=True)
class Explanation:
    """`enforced` and `passed_on` are keywords; `checked_after` are places, each with what to change there.

    Where `passed_on` is not None, the engine is given the schema itself, and nothing else is claimed.
    """

    tool: str
    enforced: tuple[str, ...] = ()
    checked_after: tuple[tuple[Loss, str], ...] = ()
    passed_on: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, object]:
        after = [
            {"path": loss.path, "keyword": loss.keyword, "how": loss.how, "hint": hint}
            for loss, hint in self.checked_after
        ]
        named = {"enforced": list(self.enforced), "passed_on": list(self.passed_on or ())}
        return {"tool": self.tool, **named, "checked_after": after}


def explanation_of(tool: ToolDefinition, encoding: str) -> Explanation:
    """For a target that Ferrule writes a grammar in, with the arguments written in `encoding`."""
    losses = losses_of(tool, encoding)
    enforced = _keywords_of(tool, {loss.path for loss in losses})
    return Explanation(tool.name, enforced, tuple((loss, hint_for(loss.keyword)) for loss in losses))


def explanation_of_passing_on(tool: ToolDefinition) -> Explanation:
    """For a target that is the schema as it is."""
    return Explanation(tool.name, passed_on=_keywords_of(tool, set()))


def _keywords_of(tool: ToolDefinition, lost: set[str]) -> tuple[str, ...]:
    used: dict[str, None] = {}
    _collect(tool.parameters, "", lost, used)
    return tuple(used)


def _collect(schema: object, path: str, lost: set[str], used: dict[str, None]) -> None:
    """The keywords that stand anywhere in a schema and are not lost there."""
    if not isinstance(schema, dict):
        return
    node = cast("dict[str, Any]", schema)
    used.update(dict.fromkeys(key for key in node if key in TELLING_KEYWORDS and f"{path}/{escape(key)}" not in lost))
    for child in children(node):
        keyword = str(child.tokens[0])
        if f"{path}/{keyword}" not in lost and (PLACES[keyword].reach != "apart" or keyword == "$defs"):
            _collect(child.schema, path + pointer_to(child.tokens), lost, used)
