"""Rewrite drafts 4 to 2019-09, and OpenAPI's `nullable`, as 2020-12: one schema object at a time, by a table.

Only keywords are rewritten here. Other modules walk the schema, resolve references and check limits; they learn from
`Node.moved` which subschemas have moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from ferrule.errors import SchemaError

Tokens: TypeAlias = tuple[str | int, ...]

_DRAFTS: Mapping[str, int] = {
    "json-schema.org/schema": 2020,
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$id", "id")
)
_DEFINITION_KEYWORDS = frozenset(("definitions", "$defs"))


@dataclass(slots=True)
class Node:
    """One schema object that is being rewritten: its keywords, its draft, and the old place of each moved subschema."""

    keywords: dict[str, object]
    path: str
    draft: int
    is_root: bool
    moved: dict[Tokens, Tokens] = field(default_factory=dict[Tokens, Tokens])


def draft_of(root: Mapping[str, object]) -> int:
    """The draft that `$schema` names; 2020 if it names none."""
    schema_uri = root.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = _DRAFTS.get(schema_uri.rstrip("#").partition("://")[2]) if isinstance(schema_uri, str) else None
    if draft is None:
        raise SchemaError(
            f"$schema names an unknown draft: {schema_uri!r:.80}",
            code="unknown_draft",
            path="/$schema",
            hint="Use https://json-schema.org/draft/2020-12/schema, or leave $schema out.",
        )
    return draft


def rewrite(keywords: Mapping[str, object], path: str, *, draft: int, is_root: bool) -> Node:
    """The same schema object with 2020-12 keywords. Its subschemas are not rewritten."""
    node = Node(dict(keywords), path, draft, is_root)
    if draft <= 7 and "$ref" in node.keywords:
        # Up to draft 7, keywords beside a $ref have no effect. Only those that assert nothing are kept.
        allowed = _ANNOTATIONS | _DEFINITION_KEYWORDS | {"$ref", "$schema"}
        node.keywords = {name: value for name, value in node.keywords.items() if name in allowed}
    for keyword, change in _CHANGES.items():
        if keyword in node.keywords:
            change(node)
    return node


def _drop(keyword: str) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        del node.keywords[keyword]

    return change


def _refuse(keyword: str, hint: str) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        raise SchemaError(
            f"{keyword} is not supported", code="unsupported_keyword", path=f"{node.path}/{keyword}", hint=hint
        )

    return change


def _identifier(keyword: str) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        name = node.keywords[keyword]
        if keyword == "id" and node.draft != 4:
            del node.keywords[keyword]
            return
        if not isinstance(name, str):
            raise _invalid_keyword(node, keyword, f"{keyword} must be a string")
        del node.keywords[keyword]
        if name.startswith("#") and len(name) > 1 and not name.startswith("#/"):
            node.keywords.setdefault("$anchor", name[1:])
        elif not node.is_root and name and not name.startswith("#"):
            raise SchemaError(
                f"{keyword} inside a schema changes the base of its references, which is not supported",
                code="nested_id",
                path=f"{node.path}/{keyword}",
                hint=f"Remove {keyword} and refer to the part by its pointer, for example #/$defs/name.",
            )

    return change


def _definitions(node: Node) -> None:
    old = _map(node, "definitions")
    new = dict(_map(node, "$defs")) if "$defs" in node.keywords else {}
    for name, schema in old.items():
        key = name
        while key in new:
            key += "_"
        new[key] = schema
        node.moved["$defs", key] = ("definitions", name)
    del node.keywords["definitions"]
    node.keywords["$defs"] = new


def _items(node: Node) -> None:
    items = node.keywords["items"]
    if not isinstance(items, list):
        return
    if "prefixItems" in node.keywords:
        raise _invalid_keyword(node, "items", "items is a list beside prefixItems")
    del node.keywords["items"]
    entries = cast("list[object]", items)
    if entries:
        node.keywords["prefixItems"] = entries
    node.moved.update({("prefixItems", index): ("items", index) for index in range(len(entries))})
    if "additionalItems" in node.keywords:
        node.keywords["items"] = node.keywords["additionalItems"]
        node.moved["items",] = ("additionalItems",)


def _dependencies(node: Node) -> None:
    schemas = dict(_map(node, "dependentSchemas")) if "dependentSchemas" in node.keywords else {}
    names = dict(_map(node, "dependentRequired")) if "dependentRequired" in node.keywords else {}
    for name, needed in _map(node, "dependencies").items():
        if name in schemas or name in names:
            raise _invalid_keyword(node, "dependencies", f"{name!r} is also in dependentSchemas or dependentRequired")
        if isinstance(needed, list):
            names[name] = cast("list[object]", needed)
        else:
            schemas[name] = needed
            node.moved["dependentSchemas", name] = ("dependencies", name)
    del node.keywords["dependencies"]
    node.keywords.update({"dependentSchemas": schemas} if schemas else {})
    node.keywords.update({"dependentRequired": names} if names else {})


def _exclusive(exclusive: str, inclusive: str) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        flag = node.keywords[exclusive]
        if not isinstance(flag, bool):
            return
        del node.keywords[exclusive]
        if flag and inclusive in node.keywords:
            node.keywords[exclusive] = node.keywords.pop(inclusive)

    return change


def _type(node: Node) -> None:
    types = node.keywords["type"]
    if types == "any" or (isinstance(types, list) and "any" in types):
        del node.keywords["type"]


def _nullable(node: Node) -> None:
    nullable = node.keywords.pop("nullable")
    if not isinstance(nullable, bool):
        raise _invalid_keyword(node, "nullable", "nullable must be true or false")
    types = node.keywords.get("type")
    # According to OpenAPI 3.0.3, nullable has no effect without a type beside it.
    if nullable and isinstance(types, str) and types != "null":
        node.keywords["type"] = [types, "null"]
    elif nullable and isinstance(types, list) and "null" not in types:
        node.keywords["type"] = [*cast("list[object]", types), "null"]


def _map(node: Node, keyword: str) -> dict[str, object]:
    value = node.keywords[keyword]
    if not isinstance(value, dict):
        raise _invalid_keyword(node, keyword, f"{keyword} must be an object")
    return cast("dict[str, object]", value)


def _invalid_keyword(node: Node, keyword: str, message: str) -> SchemaError:
    return SchemaError(
        message,
        code="not_a_schema",
        path=f"{node.path}/{keyword}",
        hint="Write the schema as JSON Schema 2020-12 defines it.",
    )


_PLAIN_REF = "Use $ref with a pointer into the same schema, for example #/$defs/name."

# The order matters: a later change may rely on an earlier one.
_CHANGES: Mapping[str, Callable[[Node], None]] = {
    "$recursiveRef": _refuse("$recursiveRef", _PLAIN_REF),
    "$dynamicRef": _refuse("$dynamicRef", _PLAIN_REF),
    "$recursiveAnchor": _drop("$recursiveAnchor"),
    "$dynamicAnchor": _drop("$dynamicAnchor"),
    "$schema": _drop("$schema"),
    "$vocabulary": _drop("$vocabulary"),
    "$id": _identifier("$id"),
    "id": _identifier("id"),
    "definitions": _definitions,
    "items": _items,
    "additionalItems": _drop("additionalItems"),
    "dependencies": _dependencies,
    "exclusiveMinimum": _exclusive("exclusiveMinimum", "minimum"),
    "exclusiveMaximum": _exclusive("exclusiveMaximum", "maximum"),
    "type": _type,
    "nullable": _nullable,
}
