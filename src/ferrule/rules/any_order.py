"""Any order: the members of an object, each at most once and the required ones all, in whichever order they come.

llguidance's own schema compiler writes members in the schema's order. Its rules can carry a set of bits, one for each
member that has been written; that says every order in as many lines as there are members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.json_text import dumps

MOST = 64
_KNOWN = frozenset(
    {"type", "properties", "required", "additionalProperties", "$defs", "x-guidance"}
    | {"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated"}
)


@dataclass(frozen=True, slots=True)
class Member:
    """One member; `schema` stands by itself."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FreeMembers:
    """`required` is how many of them, from the first on, must be there."""

    each: tuple[Member, ...]
    required: int


def members_of(schema: Mapping[str, Any]) -> FreeMembers | None:
    """The members of a closed object; None where the order is all that can be said of it, or makes no difference."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if not 2 <= len(properties) <= MOST or schema.get("additionalProperties") is not False or not {*schema} <= _KNOWN:
        return None
    wanted = frozenset(cast("list[str]", schema.get("required") or ()))
    if not wanted <= {*properties}:
        return None
    # Every reference points into `$defs` by now, so with these beside it a member can stand alone.
    shared = {key: schema[key] for key in ("$defs", "x-guidance") if key in schema}
    ordered = sorted(properties.items(), key=lambda pair: pair[0] not in wanted)
    return FreeMembers(tuple(Member(name, _alone(held, shared)) for name, held in ordered), len(wanted))


def lines_of(name: str, members: FreeMembers, values: list[str]) -> dict[str, str]:
    """The rules, by name, for an object whose members have the rules `values`."""
    return {
        name: f'{name}: "{{" {name}f::0x0 "}}"',
        f"{name}f": f"{name}f::_: {_alternatives(name, members, values, '')}",
        f"{name}r": f"{name}r::_: {_alternatives(name, members, values, ', ')}",
    }


def _alternatives(name: str, members: FreeMembers, values: list[str], before: str) -> str:
    enough = f" %if is_ones([0:{members.required}])" if members.required else ""
    each = (
        f"{dumps(before + dumps(member.name) + ': ')} {value} {name}r::set_bit({bit}) %if bit_clear({bit})"
        for bit, (member, value) in enumerate(zip(members.each, values, strict=True))
    )
    return " | ".join([f'""{enough}', *each])


def _alone(schema: Any, shared: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(schema, Mapping):
        return {**cast("Mapping[str, Any]", schema), **shared}
    return {**({} if schema else {"not": {}}), **shared}
