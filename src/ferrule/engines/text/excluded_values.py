"""Leave excluded calls out of a rule, where the arguments are listed values: then the rule can express "any but this".

A tool whose only possible call is excluded is left out whole. Free text is not narrowed: a mask can say "any text but
this" only at the text's last character, so a model that insists would be led into a text that nobody meant, such as
another path. There the call is checked when it is complete, before any of it is sent, and is written again under a rule
without the tool (`engines.repair`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from ferrule.core.call import FunctionCall
from ferrule.core.json_text import canonical, loads
from ferrule.core.request import ChoiceMode, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.schema.admission_cache import admit_tools


def narrow_rule(
    request: ToolCallRequest, tools: Sequence[ToolDefinition]
) -> tuple[ToolCallRequest, tuple[ToolDefinition, ...]]:
    """Return the request and tools from which the rule is made: the same, if no call is excluded."""
    if not request.excluded_calls or request.choice.mode is ChoiceMode.NONE:
        return request, tuple(tools)
    narrowed = {tool.name: _narrow(tool, request.excluded_calls) for tool in tools}
    changed = tuple(narrowed[tool.name] or tool for tool in tools)
    if all(new is not None for new in narrowed.values()):
        return request, admit_tools(changed)
    names = request.choice.names or tuple(narrowed)
    others = tuple(name for name in names if narrowed.get(name) is not None)
    choice = replace(request.choice, names=others) if others else ToolChoice.none()
    return replace(request, tool_choice=choice), admit_tools(changed)


def _narrow(tool: ToolDefinition, excluded: Iterable[FunctionCall]) -> ToolDefinition | None:
    """The tool without the excluded calls, as far as a rule can express that; None if no other call is possible."""
    schema = tool.parameters
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    calls = [call for call in excluded if call.name == tool.name]
    if not calls or schema.keys() - {"type", "properties", "required", "additionalProperties", "title", "description"}:
        return tool
    if not properties:
        # Without properties the grammar writes `{}` and nothing else.
        return None if any(_arguments(call) == {} for call in calls) else tool
    (name, member), *others = properties.items()
    values = _listed_values(member)
    if others or values is None or schema.get("required") != [name]:
        return tool
    written = {canonical((_arguments(call) or {}).get(name)) for call in calls if len(_arguments(call) or {}) == 1}
    remaining = [value for value in values if canonical(value) not in written]
    if len(remaining) == len(values):
        return tool
    if not remaining:
        return None
    return replace(tool, parameters={**schema, "properties": {name: {**member, "enum": remaining}}})


def _listed_values(schema: Any) -> list[Any] | None:
    if not isinstance(schema, dict):
        return None
    fields = cast("dict[str, Any]", schema)
    if fields.keys() - {"type", "enum", "title", "description", "default"}:
        return None
    values = fields.get("enum")
    return cast("list[Any]", values) if values else [True, False] if fields.get("type") == "boolean" else None


def _arguments(call: FunctionCall) -> dict[str, Any] | None:
    try:
        value = loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
