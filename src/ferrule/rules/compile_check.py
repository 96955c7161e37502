"""Compilable: the half of widening that asks. What llguidance still refuses is cut down until it compiles.

The smallest part that is refused by itself loses one keyword, then several, then everything but its types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, cast

from ferrule.rules.keyword_filter import Loss
from ferrule.rules.matcher import schema_error
from ferrule.rules.simple_schemas import is_plain
from ferrule.schema.keywords import children
from ferrule.schema.pointer import pointer_to

Node = dict[str, Any]
# Keywords that go together: the later ones of a group speak of what the first leaves over.
_GROUPS = (
    ("maxProperties",),
    ("minProperties",),
    ("multipleOf",),
    ("format",),
    ("pattern",),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    ("patternProperties", "additionalProperties"),
    ("prefixItems", "items"),
    ("enum", "const"),
    ("required",),
    ("allOf",),
    ("anyOf",),
    ("oneOf",),
    ("$ref",),
    ("properties", "patternProperties", "additionalProperties"),
)


def compiled_away(document: Node, place_of: Callable[[str], str]) -> tuple[Node, tuple[Loss, ...]]:
    """A document that compiles and is no narrower, and what it cost."""
    if is_plain(document) or not schema_error(document):
        return document, ()
    cutter = _Cutter(deepcopy(document), place_of)
    return cutter.cut(), tuple(cutter.losses)


class _Cutter:
    def __init__(self, document: Node, place_of: Callable[[str], str]) -> None:
        self.losses: list[Loss] = []
        self._document = document
        self._definitions = cast("dict[str, Node | bool]", document.get("$defs", {}))
        self._place_of = place_of

    def cut(self) -> Node:
        # One refusal hides another, so the exact repairs come first and before the blunt ones.
        repairs = (self._alternatives, self._circles, self._alternatives, self._parts)
        for step in (*repairs, self._definitions_whole, self._root_whole):
            step()
            if not schema_error(self._document):
                break
        return self._document

    def _alternatives(self) -> None:
        """`oneOf` as `anyOf` where the alternatives are not seen to exclude each other."""
        for pointer, node in self._nodes():
            if "oneOf" not in node or "oneOf" not in schema_error({**node, "$defs": self._definitions}):
                continue
            options = {"anyOf": node.pop("oneOf")}
            if "anyOf" in node:
                node["allOf"] = [*node.get("allOf", ()), options]
            else:
                node.update(options)
            self._lose(f"{pointer}/oneOf", "oneOf", "enforced as anyOf: more than one alternative may fit")

    def _parts(self) -> None:
        hidden = dict.fromkeys(self._definitions, cast("Node", {}))
        for pointer, node in self._nodes():
            if why := schema_error({**node, "$defs": hidden}):
                self._reduce(pointer, node, why, hidden)

    def _reduce(self, pointer: str, node: Node, why: str, hidden: dict[str, Node]) -> None:
        held = {key: value for key, value in node.items() if key != "$defs"}
        present = [group for group in _GROUPS if held.keys() & set(group)]
        singly = [set(group) for group in present]
        together = [{key for group in present[: size + 1] for key in group} for size in range(len(present))]
        for dropped in (*singly, *together, held.keys() - {"type"}, held.keys()):
            left = {key: value for key, value in held.items() if key not in dropped}
            if not schema_error({**left, "$defs": hidden}):
                for keyword in held.keys() & dropped:
                    node.pop(keyword)
                    self._lose(f"{pointer}/{keyword}", keyword, f"llguidance refuses it here: {why:.120}")
                return

    def _circles(self) -> None:
        """A reference that leads back to itself may have nothing beside it."""
        for pointer, node in self._nodes():
            parts = cast("list[object]", node.get("allOf", ()))
            refs = [cast("Node", part)["$ref"] for part in parts if isinstance(part, dict) and "$ref" in part]
            ref = node.get("$ref") or next(iter(refs), None)
            beside = node.keys() - {"$ref", "$defs"}
            if ref is None or not beside or "circular" not in schema_error({**node, "$defs": self._definitions}):
                continue
            for keyword in beside:
                del node[keyword]
                self._lose(f"{pointer}/{keyword}", keyword, "llguidance takes nothing beside a circular reference")
            node["$ref"] = ref

    def _definitions_whole(self) -> None:
        for name, node in self._definitions.items():
            if isinstance(node, dict) and schema_error(self._document):
                self._to_types(f"/$defs/{name}", node)

    def _root_whole(self) -> None:
        self._to_types("", self._document)

    def _to_types(self, pointer: str, node: Node) -> None:
        for keyword in node.keys() - {"type"}:
            del node[keyword]
            if keyword != "$defs":
                self._lose(f"{pointer}/{keyword}", keyword, "only the type is enforced: llguidance refuses the whole")

    def _lose(self, pointer: str, keyword: str, how: str) -> None:
        self.losses.append(Loss(self._place_of(pointer), keyword, how))

    def _nodes(self) -> Iterator[tuple[str, Node]]:
        """Every subschema that is an object, inner ones before those that hold them."""
        for name, definition in self._definitions.items():
            yield from _inner_first(definition, f"/$defs/{name}")
        yield from _inner_first(self._document, "")


def _inner_first(schema: object, pointer: str) -> Iterator[tuple[str, Node]]:
    if not isinstance(schema, dict):
        return
    node = cast("Node", schema)
    for child in list(children(node)):
        if child.reach != "apart":
            yield from _inner_first(child.schema, pointer + pointer_to(child.tokens))
    yield pointer, node
