"""ApprovalPolicy: which calls need approval, by how many people, and for how long. It reads values and does no IO.

A rule selects calls by the tool's name and by a JSON Schema of the arguments. A schema and not an expression language:
operators already write schemas for tools, the checker is the one that validates every call, it has no side effects and
ends in bounded time, and a mistake in it is found when the configuration is read. "More than 1,000" is
`{"properties": {"amount": {"exclusiveMinimum": 1000}}}`.

All rules that select a call apply together, and the strictest terms win. So the order of rules does not matter, and a
further rule can only be missed by a call that it does not select.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.call import ToolCall
from ferrule.errors import DefinitionError, SchemaError
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for

ALL_TOOLS = "*"
DAY_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """When a call needs approval, and by whom. If several rules select a call, the strictest of them counts.

    Example:
        large = {"properties": {"amount": {"minimum": 1000}}}
        rule = ApprovalRule(name="large", tools=("pay",), arguments=large, approvers=2, four_eyes=True)
    """

    name: str
    tools: tuple[str, ...] = (ALL_TOOLS,)
    """The tools whose calls the rule selects, "*" for all tools with side effects."""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    """A JSON Schema: the rule selects calls whose arguments fit it. Empty selects every call."""
    approvers: int = 1
    """How many different people must approve a call; 0 lets it run without approval."""
    four_eyes: bool = False
    """Whether the principal who asked for the call may not approve it."""
    expires_seconds: float = DAY_SECONDS
    """How long an approval can be given and used."""

    def __post_init__(self) -> None:
        if not self.tools:
            raise DefinitionError("tools is empty", hint='Name the tools, or write ["*"].')
        try:
            schema = admit(self.arguments)
        except SchemaError as refusal:
            raise DefinitionError(
                f"arguments is not a usable JSON Schema: {refusal.message}", hint=refusal.hint
            ) from None
        absent = sorted(set(_names(schema, "properties")) - set(_names(schema, "required")))
        if self.approvers == 0 and absent:
            # A property that is absent fits every schema of it, so a call without an amount would count as a small one.
            raise DefinitionError(
                f"arguments has to require {', '.join(absent)}, because the rule lets calls run without approval",
                hint=f"Write required = {sorted(_names(schema, 'properties'))} in it.",
            )

    @property
    def terms(self) -> ApprovalTerms:
        return ApprovalTerms(self.approvers, self.four_eyes, self.expires_seconds)

    def may_select(self, tool: str, *, side_effects: bool) -> bool:
        return tool in self.tools or (ALL_TOOLS in self.tools and side_effects)

    def selects(self, call: ToolCall, *, side_effects: bool) -> bool:
        if not self.may_select(call.name, side_effects=side_effects):
            return False
        return not checker_for(self.arguments).faults_of_text(call.function.arguments) if self.arguments else True


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """The rules of a gateway. Without one that selects a call, the caller's default applies."""

    rules: tuple[ApprovalRule, ...] = ()

    def terms_of(self, call: ToolCall, *, side_effects: bool) -> ApprovalTerms | None:
        """Return the terms of a call; None if no rule selects it."""
        terms: ApprovalTerms | None = None
        for rule in self.rules:
            if rule.selects(call, side_effects=side_effects):
                terms = rule.terms if terms is None else terms.combined(rule.terms)
        return terms

    def may_require(self, tool: str, *, side_effects: bool) -> bool:
        """Whether some call of a tool needs approval by a rule."""
        return any(rule.approvers and rule.may_select(tool, side_effects=side_effects) for rule in self.rules)


def _names(schema: object, key: str) -> Iterable[str]:
    return cast("Iterable[str]", cast("dict[str, Any]", schema).get(key, ())) if isinstance(schema, dict) else ()
