"""Which JSON Schema keywords each target enforces while decoding, and what to change in a schema to enforce more.

`llguidance` is its own JSON Schema compiler, for arguments that are JSON. `lowered` is Ferrule's own lowering, for
every encoding that is not JSON and for targets without a schema compiler. Data only; tests prove each row.
"""

from __future__ import annotations

from collections.abc import Mapping

from ferrule.schema.target_limit import Coverage, Limit
from ferrule.schema.target_limits_llguidance import GUIDANCE, GUIDANCE_FORMATS
from ferrule.schema.target_limits_lowering import LOWERED

__all__ = ["CHECKED_FORMATS", "GUIDANCE_FORMATS", "HINTS", "LIMITS", "Coverage", "Limit", "hint_for"]

LIMITS: Mapping[str, tuple[Limit, ...]] = {"llguidance": GUIDANCE, "lowered": LOWERED}

# Every keyword with which a schema constrains a value.
CONSTRAINT_KEYWORDS = frozenset(row.keyword for rows in LIMITS.values() for row in rows) | {"format"}

# The formats that the checker validates. Any other format is only shown to the model.
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

_CHECKED_ONLY = "No change needed: it is checked after decoding. Mention it in the description, so that models comply."
HINTS: Mapping[str, str] = {
    "oneOf": 'Give every alternative a property with its own const, such as "kind", and require it.',
    "allOf": "Write one schema instead of the allOf.",
    "anyOf": "Let the alternatives differ in type, or in a required const.",
    "not": "List what is allowed, with enum or a pattern, instead of what is not.",
    "if": "Write the cases as anyOf of objects that differ in a required const.",
    "then": "Write the cases as anyOf of objects that differ in a required const.",
    "else": "Write the cases as anyOf of objects that differ in a required const.",
    "dependentRequired": "Put the properties that belong together into one object, and require them there.",
    "dependentSchemas": "Put the properties that belong together into one object, and require them there.",
    "uniqueItems": "If the items are few and known, use an object of booleans instead of the array.",
    "contains": "Use a separate property for the item that must be present.",
    "minProperties": "Require the properties by name.",
    "maxProperties": "Set additionalProperties to false.",
    "patternProperties": "Use a list of objects with a name and a value, or let no two patterns match the same name.",
    "additionalProperties": "List the properties, and set additionalProperties to false.",
    "propertyNames": "Give the names as an enum or as a pattern, with no other keyword beside it.",
    "unevaluatedProperties": "Write one object schema with additionalProperties false instead of the combination.",
    "unevaluatedItems": "Write one array schema with items false instead of the combination.",
    "pattern": "Avoid \\b, and keep the pattern short; or list the values as an enum.",
    "format": "Use one of these: " + ", ".join(sorted(GUIDANCE_FORMATS)) + "; or a pattern.",
    "multipleOf": "Use a multiple of at most three digits, or count in a smaller unit with type integer.",
    "minimum": "If the values are few, list them as an enum.",
    "maximum": "If the values are few, list them as an enum.",
    "exclusiveMinimum": "If the values are few, list them as an enum.",
    "exclusiveMaximum": "If the values are few, list them as an enum.",
    "enum": "Write numbers without an exponent.",
    "const": "Write numbers without an exponent.",
    "required": "Require only properties that the schema allows.",
}


def hint_for(keyword: str) -> str:
    """What to change in a schema so that a keyword, or its purpose, is enforced while decoding."""
    return HINTS.get(keyword, _CHECKED_ONLY)
