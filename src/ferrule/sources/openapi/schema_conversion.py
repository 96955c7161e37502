"""Convert a schema of an OpenAPI document into a JSON Schema 2020-12 of its own.

OpenAPI 3.1 schemas are JSON Schema 2020-12. OpenAPI 3.0 has an older dialect: `nullable`, boolean exclusive bounds, and
keywords without meaning for a value. References into the document become references into `$defs`, which hold exactly
the definitions that are used, so that a recursive schema stays recursive.

A schema that is too large for the admission is converted again with shorter descriptions, then with fewer definitions.
Definitions of an API's answers often lead to most of the document. A request needs few of them, but where it
needs more than `MAX_DEFINITIONS`, what lies deeper is left open (any value) and the API itself checks it;
`SchemaConverter.is_open` says that this happened. Properties that only an answer has (`readOnly`) are left out.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.sources.openapi.document import Document, target_of

MAX_DEFINITIONS = 60
_DEFINITION_NAME = re.compile(r"[^A-Za-z0-9_.\-]")
# Keywords that say nothing about a value, or that OpenAPI alone knows.
_DROPPED = frozenset({"discriminator", "xml", "externalDocs", "example", "examples", "nullable", "deprecated"})
_SCHEMA_KEYWORDS = frozenset(
    {"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties"}
)
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})


@dataclass(slots=True)
class SchemaConverter:
    """Converts the schemas of one operation. They share `definitions`."""

    document: Document
    max_description: int | None = None
    """How many characters of a description are kept; None keeps all."""
    max_definitions: int = MAX_DEFINITIONS
    definitions: dict[str, Any] = field(default_factory=dict[str, Any])
    is_open: bool = False
    _names: dict[str, str] = field(default_factory=dict[str, str])
    """The name in `$defs` of each reference."""
    _waiting: deque[str] = field(default_factory=deque[str])

    @property
    def is_3_0(self) -> bool:
        return str(self.document["openapi"]).startswith("3.0")

    def convert(self, schema: object) -> Any:
        """Convert a schema and, breadth first, every definition that it leads to."""
        converted = self._convert(schema)
        while self._waiting:
            reference = self._waiting.popleft()
            self.definitions[self._names[reference]] = self._convert(target_of(self.document, reference))
        return converted

    def _convert(self, schema: object) -> Any:
        if not isinstance(schema, Mapping):
            return schema if isinstance(schema, bool) else {}
        fields = cast("Mapping[str, Any]", schema)
        if "$ref" in fields:
            return self._reference(fields)
        result: dict[str, Any] = {}
        for keyword, value in fields.items():
            if keyword in _SCHEMA_KEYWORDS:
                result[keyword] = self._convert(value)
            elif keyword in _SCHEMA_LISTS and isinstance(value, list):
                result[keyword] = [self._convert(one) for one in cast("list[object]", value)]
            elif keyword in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
                by_name = cast("Mapping[str, object]", value)
                result[keyword] = {name: self._convert(one) for name, one in by_name.items()}
            elif keyword == "description" and isinstance(value, str) and self.max_description is not None:
                if self.max_description:
                    result[keyword] = value[: self.max_description]
            elif keyword not in _DROPPED and not keyword.startswith("x-"):
                result[keyword] = value
        self._leave_out_read_only(fields, result)
        if self.is_3_0:
            _modernize(fields, result)
        return result

    def _reference(self, fields: Mapping[str, Any]) -> Any:
        reference = fields["$ref"]
        target_of(self.document, reference)
        name = self._names.get(reference)
        if name is None:
            if len(self._names) >= self.max_definitions:
                self.is_open = True
                return {}
            name = self._unused_name(_DEFINITION_NAME.sub("_", reference.rpartition("/")[2]))
            self._names[reference] = name
            self._waiting.append(reference)
        converted: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        # In 3.0 what stands beside a reference has no meaning.
        if not self.is_3_0 and isinstance(fields.get("description"), str):
            converted["description"] = fields["description"]
        return converted

    def _unused_name(self, name: str) -> str:
        taken = set(self._names.values())
        return next(
            one for number in range(len(taken) + 1) if (one := f"{name}_{number}" if number else name) not in taken
        )

    def _leave_out_read_only(self, fields: Mapping[str, Any], result: dict[str, Any]) -> None:
        properties = fields.get("properties")
        if not isinstance(properties, Mapping):
            return
        read_only = {
            name
            for name, one in cast("Mapping[str, Any]", properties).items()
            if isinstance(one, Mapping) and cast("Mapping[str, Any]", one).get("readOnly") is True
        }
        if read_only:
            result["properties"] = {name: one for name, one in result["properties"].items() if name not in read_only}
            if isinstance(result.get("required"), list):
                result["required"] = [name for name in result["required"] if name not in read_only]


def _modernize(fields: Mapping[str, Any], result: dict[str, Any]) -> None:
    """Replace what OpenAPI 3.0 writes differently."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(result.get(exclusive), bool) and result.pop(exclusive) and bound in result:
            result[exclusive] = result.pop(bound)
    if fields.get("nullable") is True:
        if isinstance(result.get("type"), str):
            result["type"] = [result["type"], "null"]
            values = result.get("enum")
            if isinstance(values, list) and None not in values:
                result["enum"] = [*cast("list[Any]", values), None]
        elif result:
            nullable = dict(result)
            result.clear()
            result["anyOf"] = [nullable, {"type": "null"}]
