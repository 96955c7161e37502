"""What each target can and cannot say of a JSON Schema while decoding: the tables, and what to change in a schema.

`llguidance` is its own JSON Schema compiler, for arguments that are JSON. `lowered` is Ferrule's own lowering, for
every encoding that is not JSON and for targets without a compiler of their own. Data only; tests prove each row.
"""

from __future__ import annotations

from collections.abc import Mapping

from ferrule.schema.target_limit import Limit, Say
from ferrule.schema.target_limits_llguidance import GUIDANCE, GUIDANCE_FORMATS
from ferrule.schema.target_limits_lowering import LOWERED

__all__ = ["CHECKED_FORMATS", "GUIDANCE_FORMATS", "HINTS", "LIMITS", "Limit", "Say", "hint_for"]

LIMITS: Mapping[str, tuple[Limit, ...]] = {"llguidance": GUIDANCE, "lowered": LOWERED}

# Every keyword by which a schema says something of a value.
TELLING_KEYWORDS = frozenset(row.keyword for rows in LIMITS.values() for row in rows) | {"format"}

# What the checker looks at; any other format is a word to the model and nothing more.
CHECKED_FORMATS = GUIDANCE_FORMATS | {
    "idn-email",
    "idn-hostname",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
}

_CHECKED_ONLY = "Nothing need change: it is checked after decoding. Say it in the description too, so that it is met."
HINTS: Mapping[str, str] = {
    "oneOf": 'Give every alternative a property with its own const, such as "kind", and require it.',
    "allOf": "Write one schema in place of the allOf.",
    "anyOf": "Let the alternatives differ in type, or in a required const.",
    "not": "List what is allowed, with enum or a pattern, in place of what is not.",
    "if": "Write the cases as anyOf of objects that differ in a required const.",
    "then": "Write the cases as anyOf of objects that differ in a required const.",
    "else": "Write the cases as anyOf of objects that differ in a required const.",
    "dependentRequired": "Put the properties that belong together into one object, and require them there.",
    "dependentSchemas": "Put the properties that belong together into one object, and require them there.",
    "uniqueItems": "Where the items are few and known, take an object of booleans in place of the array.",
    "contains": "Take a property of its own for the item that must be there.",
    "minProperties": "Require the properties by name.",
    "maxProperties": "Set additionalProperties to false.",
    "patternProperties": "Take a list of objects with a name and a value, or let no two patterns match the same name.",
    "additionalProperties": "List the properties, and set additionalProperties to false.",
    "propertyNames": "Give the names as an enum or as a pattern, with no other keyword beside it.",
    "unevaluatedProperties": "Write one object schema with additionalProperties false in place of the combination.",
    "unevaluatedItems": "Write one array schema with items false in place of the combination.",
    "pattern": "Do without \\b, and keep the pattern short; or list the values as an enum.",
    "format": "Take one of these: " + ", ".join(sorted(GUIDANCE_FORMATS)) + "; or a pattern.",
    "multipleOf": "Take a multiple of at most three digits, or count in a smaller unit with type integer.",
    "minimum": "Where the values are few, list them as an enum.",
    "maximum": "Where the values are few, list them as an enum.",
    "exclusiveMinimum": "Where the values are few, list them as an enum.",
    "exclusiveMaximum": "Where the values are few, list them as an enum.",
    "enum": "Write numbers without an exponent.",
    "const": "Write numbers without an exponent.",
    "required": "Require only properties that the schema lets be there.",
}


def hint_for(keyword: str) -> str:
    """What to change in a schema so that a keyword, or what it is for, is enforced while decoding."""
    return HINTS.get(keyword, _CHECKED_ONLY)
