"""The second half of relaxation: ask llguidance's compiler, and reduce what it still refuses until it compiles.

The smallest part that the compiler refuses by itself loses one keyword, then several, then everything but its types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, cast

from ferrule.rules.keyword_filter import Loss
from ferrule.rules.matcher import schema_error
from ferrule.rules.simple_schemas import is_simple
from ferrule.schema.keywords import children
from ferrule.schema.pointer import pointer_to

Node = dict[str, Any]
# Keywords that are dropped together: the later ones of a group apply to what the first one leaves over.
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


def make_compilable(document: Node, original_path: Callable[[str], str]) -> tuple[Node, tuple[Loss, ...]]:
    """Relax a document until it compiles. Returns the document, which is never narrower, and the losses."""
    if is_simple(document) or not schema_error(document):
        return document, ()
    reducer = _Reducer(deepcopy(document), original_path)
    return reducer.reduce(), tuple(reducer.losses)


class _Reducer:
    def __init__(self, document: Node, original_path: Callable[[str], str]) -> None:
        self.losses: list[Loss] = []
        self._document = document
        self._definitions = cast("dict[str, Node | bool]", document.get("$defs", {}))
        self._original_path = original_path

    def reduce(self) -> Node:
        """The document, changed until it compiles."""
        # One refusal hides another, so the exact repairs run before the blunt ones, and some of them twice.
        repairs = (self._one_of_to_any_of, self._clear_beside_cycles, self._one_of_to_any_of, self._reduce_parts)
        for step in (*repairs, self._reduce_definitions_to_types, self._reduce_root_to_types):
            step()
            if not schema_error(self._document):
                break
        return self._document

    def _one_of_to_any_of(self) -> None:
        """Replace `oneOf` by `anyOf` where the compiler cannot see that the alternatives exclude each other."""
        for pointer, node in self._nodes():
            if "oneOf" not in node or "oneOf" not in schema_error({**node, "$defs": self._definitions}):
                continue
            options = {"anyOf": node.pop("oneOf")}
            if "anyOf" in node:
                node["allOf"] = [*node.get("allOf", ()), options]
            else:
                node.update(options)
            self._record_loss(f"{pointer}/oneOf", "oneOf", "enforced as anyOf: more than one alternative may fit")

    def _reduce_parts(self) -> None:
        stub_definitions = dict.fromkeys(self._definitions, cast("Node", {}))
        for pointer, node in self._nodes():
            if reason := schema_error({**node, "$defs": stub_definitions}):
                self._drop_groups(pointer, node, reason, stub_definitions)

    def _drop_groups(self, pointer: str, node: Node, reason: str, stub_definitions: dict[str, Node]) -> None:
        keywords = {key: value for key, value in node.items() if key != "$defs"}
        present = [group for group in _GROUPS if keywords.keys() & set(group)]
        single_groups = [set(group) for group in present]
        cumulative_groups = [{key for group in present[: size + 1] for key in group} for size in range(len(present))]
        # Try single groups first, then more and more groups together, then all but the type, then everything.
        for dropped in (*single_groups, *cumulative_groups, keywords.keys() - {"type"}, keywords.keys()):
            remaining = {key: value for key, value in keywords.items() if key not in dropped}
            if not schema_error({**remaining, "$defs": stub_definitions}):
                for keyword in keywords.keys() & dropped:
                    node.pop(keyword)
                    self._record_loss(f"{pointer}/{keyword}", keyword, f"llguidance refuses it here: {reason:.120}")
                return

    def _clear_beside_cycles(self) -> None:
        """Drop all keywords beside a circular reference: the compiler allows none there."""
        for pointer, node in self._nodes():
            parts = cast("list[object]", node.get("allOf", ()))
            refs = [cast("Node", part)["$ref"] for part in parts if isinstance(part, dict) and "$ref" in part]
            ref = node.get("$ref") or next(iter(refs), None)
            beside = node.keys() - {"$ref", "$defs"}
            if ref is None or not beside or "circular" not in schema_error({**node, "$defs": self._definitions}):
                continue
            for keyword in beside:
                del node[keyword]
                self._record_loss(
                    f"{pointer}/{keyword}", keyword, "llguidance takes nothing beside a circular reference"
                )
            node["$ref"] = ref

    def _reduce_definitions_to_types(self) -> None:
        for name, node in self._definitions.items():
            if isinstance(node, dict) and schema_error(self._document):
                self._keep_types_only(f"/$defs/{name}", node)

    def _reduce_root_to_types(self) -> None:
        self._keep_types_only("", self._document)

    def _keep_types_only(self, pointer: str, node: Node) -> None:
        for keyword in node.keys() - {"type"}:
            del node[keyword]
            if keyword != "$defs":
                self._record_loss(
                    f"{pointer}/{keyword}", keyword, "only the type is enforced: llguidance refuses the whole"
                )

    def _record_loss(self, pointer: str, keyword: str, reason: str) -> None:
        self.losses.append(Loss(self._original_path(pointer), keyword, reason))

    def _nodes(self) -> Iterator[tuple[str, Node]]:
        """Every subschema that is an object, inner ones before the ones that contain them."""
        for name, definition in self._definitions.items():
            yield from _inner_first(definition, f"/$defs/{name}")
        yield from _inner_first(self._document, "")


def _inner_first(schema: object, pointer: str) -> Iterator[tuple[str, Node]]:
    if not isinstance(schema, dict):
        return
    node = cast("Node", schema)
    for child in list(children(node)):
        if child.applies_to != "nothing":
            yield from _inner_first(child.schema, pointer + pointer_to(child.tokens))
    yield pointer, node
