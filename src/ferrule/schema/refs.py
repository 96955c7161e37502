"""Resolve references. A `$ref` can only point into the same document; nothing is ever fetched.

`outline` walks a schema once, rewrites it as 2020-12 and records every subschema by its pointer, so that resolving a
reference is a lookup. Its only limit is the depth of its own recursion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from ferrule.errors import SchemaError
from ferrule.schema.drafts import draft_of, rewrite
from ferrule.schema.keywords import Subschema, children
from ferrule.schema.metaschema import check_schema, check_shape
from ferrule.schema.pointer import from_fragment, pointer_to, ref_to, tokens_of


@dataclass(slots=True)
class Outline:
    """A schema as 2020-12, with all its subschemas by pointer (`nodes`).

    `current_pointers` maps pointers of the original schema to pointers of this one; `original_pointers` is the inverse.
    """

    nodes: dict[str, Subschema] = field(default_factory=dict[str, Subschema])
    current_pointers: dict[str, str] = field(default_factory=dict[str, str])
    original_pointers: dict[str, str] = field(default_factory=dict[str, str])
    anchors: dict[str, str] = field(default_factory=dict[str, str])
    own_id: str = ""

    @property
    def root(self) -> Subschema:
        return self.nodes[""]


def outline(schema: dict[str, object], *, max_depth: int) -> Outline:
    """Copy a schema and rewrite it, with every `$ref` resolved to `#` or `#/...`."""
    document_id = schema.get("$id", schema.get("id", ""))
    result = Outline(own_id=document_id.rstrip("#") if isinstance(document_id, str) else "")
    _visit(schema, "", "", result, draft_of(schema), max_depth)
    for pointer, node in result.nodes.items():
        if isinstance(node, dict) and "$ref" in node:
            node["$ref"] = ref_to(_target(cast(str, node["$ref"]), f"{result.original_pointers[pointer]}/$ref", result))
    return result


def _visit(schema: object, original: str, current: str, result: Outline, draft: int, depth_left: int) -> Subschema:
    if depth_left < 0:
        raise SchemaError(
            "subschemas are nested too deeply",
            code="too_deep",
            path=original,
            hint="Flatten the schema, or move inner parts to $defs and refer to them.",
        )
    check_schema(schema, original)
    result.current_pointers[original], result.original_pointers[current] = current, original
    if isinstance(schema, bool):
        result.nodes[current] = schema
        return schema
    rewritten = rewrite(cast("dict[str, object]", schema), original, draft=draft, is_root=not current)
    copied = {name: _copy(value) for name, value in rewritten.keywords.items()}
    for keyword, value in copied.items():
        check_shape(keyword, value, f"{original}/{keyword}")
    result.nodes[current] = copied
    _remember_anchor(copied, original, current, result)
    for child in list(children(copied)):
        # Errors name the place in the original schema, so the old pointer of a moved subschema is tracked too.
        old = rewritten.moved.get(child.tokens, child.tokens)
        pointers = (original + pointer_to(old), current + pointer_to(child.tokens))
        _set_child(copied, child.tokens, _visit(child.schema, *pointers, result, draft, depth_left - 1))
    return copied


def _set_child(node: dict[str, object], tokens: tuple[str | int, ...], inner: Subschema) -> None:
    if len(tokens) == 1:
        node[cast(str, tokens[0])] = inner
    else:
        cast("dict[str | int, object]", node[cast(str, tokens[0])])[tokens[1]] = inner


def _copy(value: object) -> object:
    """A deep copy of a JSON value; tuples become lists."""
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_copy(inner) for inner in cast("list[object]", value)]
    return value


def _remember_anchor(node: dict[str, object], original: str, current: str, result: Outline) -> None:
    anchor = node.pop("$anchor", None)
    if anchor is None:
        return
    if anchor in result.anchors:
        raise SchemaError(
            f"two subschemas have the anchor {anchor!r}",
            code="duplicate_anchor",
            path=f"{original}/$anchor",
            hint="Give each $anchor its own name.",
        )
    result.anchors[cast(str, anchor)] = current


def _target(ref: str, path: str, result: Outline) -> str:
    document, _, fragment = ref.partition("#")
    if document and document != result.own_id:
        raise SchemaError(
            f"the reference {ref!r:.80} points outside the schema, and schemas are never fetched",
            code="remote_ref",
            path=path,
            hint="Copy the referenced schema into $defs and refer to it as #/$defs/name.",
        )
    if fragment and not fragment.startswith("/"):
        pointer = result.anchors.get(fragment)
    else:
        pointer = result.current_pointers.get(from_fragment(fragment))
    if pointer is None:
        raise SchemaError(
            f"the reference {ref!r:.80} points to no schema",
            code="dangling_ref",
            path=path,
            hint="Put the referenced schema into $defs and refer to it as #/$defs/name.",
        )
    return pointer


def local_target(ref: object, root: object) -> Subschema | None:
    """The target of a local reference; None if there is no schema. The root need not be admitted."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    node = root
    for key in tokens_of(from_fragment(ref[1:])):
        if isinstance(node, dict):
            node = cast("dict[str, object]", node).get(key)
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(cast("list[object]", node)):
            node = cast("list[object]", node)[int(key)]
        else:
            return None
    return cast(Subschema, node) if isinstance(node, dict | bool) else None
