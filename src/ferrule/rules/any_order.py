"""Grammar rules for an object with members in any order: each at most once, all required ones present.

llguidance's own schema compiler fixes the order of members to that of the schema. Its grammar rules can carry a set of
bits, one for each member that is already written. With these bits, every order takes only as many alternatives as there
are members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.json_text import dumps

MAX_MEMBERS = 64
_SUPPORTED_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "$defs", "x-guidance"}
    | {"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated"}
)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object. `schema` is self-contained: it carries the definitions that it refers to."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UnorderedMembers:
    """The members of an object, required ones first. `required` is the number of required members."""

    each: tuple[Member, ...]
    required: int


def members_of(schema: Mapping[str, Any]) -> UnorderedMembers | None:
    """The members of a closed object, or None if any order cannot be expressed for it or makes no difference."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if (
        not 2 <= len(properties) <= MAX_MEMBERS
        or schema.get("additionalProperties") is not False
        or not {*schema} <= _SUPPORTED_KEYWORDS
    ):
        return None
    required = frozenset(cast("list[str]", schema.get("required") or ()))
    if not required <= {*properties}:
        return None
    # Every reference points into `$defs` by now, so a member that carries these two keywords is self-contained.
    shared_keywords = {key: schema[key] for key in ("$defs", "x-guidance") if key in schema}
    required_first = sorted(properties.items(), key=lambda pair: pair[0] not in required)
    return UnorderedMembers(
        tuple(Member(name, _standalone_schema(subschema, shared_keywords)) for name, subschema in required_first),
        len(required),
    )


def lines_of(name: str, members: UnorderedMembers, values: list[str]) -> dict[str, str]:
    """The grammar lines, by rule name, of an object. `values` are the rule names of its members' values."""
    return {
        name: f'{name}: "{{" {name}f::0x0 "}}"',
        f"{name}f": f"{name}f::_: {_alternatives(name, members, values, '')}",
        f"{name}r": f"{name}r::_: {_alternatives(name, members, values, ', ')}",
    }


def _alternatives(name: str, members: UnorderedMembers, values: list[str], separator: str) -> str:
    condition = f" %if is_ones([0:{members.required}])" if members.required else ""
    each = (
        f"{dumps(separator + dumps(member.name) + ': ')} {value} {name}r::set_bit({bit}) %if bit_clear({bit})"
        for bit, (member, value) in enumerate(zip(members.each, values, strict=True))
    )
    return " | ".join([f'""{condition}', *each])


def _standalone_schema(schema: Any, shared_keywords: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(schema, Mapping):
        return {**cast("Mapping[str, Any]", schema), **shared_keywords}
    return {**({} if schema else {"not": {}}), **shared_keywords}
