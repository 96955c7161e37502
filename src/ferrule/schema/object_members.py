"""Members of an object: which schema a member has, and whether a member may be written that the schema does not list.

JSON Schema allows any member beside the listed ones unless it says otherwise. A model should use only the listed
ones, on every target alike, because no target can ensure that other names differ from each other. So other members may
be written only if the schema mentions them, lists none, or cannot be satisfied without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.errors import SchemaError
from ferrule.schema.checker import checker_for

Schema = Mapping[str, Any]
_ANYTHING: Schema = {}
_MAX_COUNTED = 128


def listed_names(schema: Schema) -> tuple[str, ...]:
    """The names that a schema lists, then those that it only requires."""
    return tuple(dict.fromkeys((*cast("Schema", schema.get("properties") or {}), *schema.get("required", ()))))


def needs_additional_members(schema: Schema) -> bool:
    """Whether no value fits that has only the listed members."""
    return schema.get("minProperties", 0) > len(listed_names(schema))


def additional_counts(schema: Schema) -> tuple[int, int | None]:
    """How many additional members must be written at least, and may be at most.

    If listed members may be missing, how many others there must be depends on them, and no target can count that.
    """
    names = listed_names(schema)
    if not {*names} <= {*schema.get("required", ())}:
        return 0, None
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    if max(least, most or 0) > _MAX_COUNTED:
        return 0, None
    at_least = max(0, int(least) - len(names))
    return at_least, None if most is None else max(at_least, int(most) - len(names))


def additional_schema(schema: Schema) -> Any | None:
    """What every member that is not listed must fit at least; None if no such member may be written."""
    others = schema.get("additionalProperties")
    patterns = list(cast("Schema", schema.get("patternProperties") or {}).values())
    if others is None and not patterns and listed_names(schema) and not needs_additional_members(schema):
        return None
    options = patterns if others is False else [*patterns, _ANYTHING if others is None else others]
    if not options:
        return None
    return options[0] if len(options) == 1 else {"anyOf": options}


def member_schema(schema: Schema, name: str) -> Any:
    """What the member with this name must fit."""
    properties = cast("Schema", schema.get("properties") or {})
    if name in properties:
        return properties[name]
    patterns = cast("Schema", schema.get("patternProperties") or {})
    matching = [inner for pattern, inner in patterns.items() if _matches(pattern, name)]
    if not matching:
        return schema.get("additionalProperties", _ANYTHING)
    return matching[0] if len(matching) == 1 else {"allOf": matching}


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern applies to a name: the validator decides, so that no other reading of it exists."""
    try:
        return not checker_for({"patternProperties": {pattern: False}}).fits({name: None})
    except SchemaError:
        # The schema was never admitted, and nothing is known of the member.
        return False
