"""Drafts 4 to 2019-09, and OpenAPI's `nullable`, rewritten as 2020-12: one node at a time, by a table.

Knows only spellings. Walking, references and limits are elsewhere; what a rewrite moves is reported to them.
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
_STORES = frozenset(("definitions", "$defs"))


@dataclass(slots=True)
class Node:
    """One schema object being rewritten: its keywords, the draft, and where each moved subschema stood before."""

    keywords: dict[str, object]
    path: str
    draft: int
    is_root: bool
    moved: dict[Tokens, Tokens] = field(default_factory=dict[Tokens, Tokens])


def draft_of(root: Mapping[str, object]) -> int:
    """The draft that `$schema` names; 2020 where it names none."""
    named = root.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    known = _DRAFTS.get(named.rstrip("#").partition("://")[2]) if isinstance(named, str) else None
    if known is None:
        raise SchemaError(
            f"$schema names an unknown draft: {named!r:.80}",
            code="unknown_draft",
            path="/$schema",
            hint="Use https://json-schema.org/draft/2020-12/schema, or leave $schema out.",
        )
    return known


def rewrite(keywords: Mapping[str, object], path: str, *, draft: int, is_root: bool) -> Node:
    """The same schema object with 2020-12 spellings. Its subschemas are not touched."""
    node = Node(dict(keywords), path, draft, is_root)
    if draft <= 7 and "$ref" in node.keywords:
        # Up to draft 7 whatever stands beside a $ref has no effect; only what asserts nothing is kept.
        kept = _ANNOTATIONS | _STORES | {"$ref", "$schema"}
        node.keywords = {name: value for name, value in node.keywords.items() if name in kept}
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
            raise _misused(node, keyword, f"{keyword} must be a string")
        del node.keywords[keyword]
        if name.startswith("#") and len(name) > 1 and not name.startswith("#/"):
            node.keywords.setdefault("$anchor", name[1:])
        elif not node.is_root and name and not name.startswith("#"):
            raise SchemaError(
                f"{keyword} inside a schema gives its references another base",
                code="nested_id",
                path=f"{node.path}/{keyword}",
                hint=f"Leave {keyword} out and refer to the part by its place, for example #/$defs/name.",
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
        raise _misused(node, "items", "items is a list beside prefixItems")
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
            raise _misused(node, "dependencies", f"{name!r} also stands under another dependent keyword")
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
    named = node.keywords["type"]
    if named == "any" or (isinstance(named, list) and "any" in named):
        del node.keywords["type"]


def _nullable(node: Node) -> None:
    nullable = node.keywords.pop("nullable")
    if not isinstance(nullable, bool):
        raise _misused(node, "nullable", "nullable must be true or false")
    named = node.keywords.get("type")
    # As OpenAPI 3.0.3 has it: without a type beside it, nullable changes nothing.
    if nullable and isinstance(named, str) and named != "null":
        node.keywords["type"] = [named, "null"]
    elif nullable and isinstance(named, list) and "null" not in named:
        node.keywords["type"] = [*cast("list[object]", named), "null"]


def _map(node: Node, keyword: str) -> dict[str, object]:
    held = node.keywords[keyword]
    if not isinstance(held, dict):
        raise _misused(node, keyword, f"{keyword} must be an object")
    return cast("dict[str, object]", held)


def _misused(node: Node, keyword: str, message: str) -> SchemaError:
    return SchemaError(
        message,
        code="not_a_schema",
        path=f"{node.path}/{keyword}",
        hint="Write the schema as JSON Schema 2020-12 has it.",
    )


_PLAIN_REF = "Use $ref with a place in the same schema, for example #/$defs/name."

# In this order: a later change may rely on an earlier one.
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
