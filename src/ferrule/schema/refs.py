"""References: where each `$ref` leads. Only places in the same document exist; nothing is ever fetched.

`Outline` walks a schema once, rewrites it as 2020-12 and remembers every place in it, so that a reference is a lookup.
Must not know any limit but the depth that its own recursion needs.
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
    """A schema in 2020-12 and all its places, by their pointers in it (`nodes`) and in the original (`now_at`)."""

    nodes: dict[str, Subschema] = field(default_factory=dict[str, Subschema])
    now_at: dict[str, str] = field(default_factory=dict[str, str])
    was_at: dict[str, str] = field(default_factory=dict[str, str])
    anchors: dict[str, str] = field(default_factory=dict[str, str])
    own_id: str = ""

    @property
    def root(self) -> Subschema:
        return self.nodes[""]


def outline(schema: dict[str, object], *, max_depth: int) -> Outline:
    """The schema copied, rewritten and with every `$ref` resolved to `#` or `#/...`."""
    named = schema.get("$id", schema.get("id", ""))
    found = Outline(own_id=named.rstrip("#") if isinstance(named, str) else "")
    _visit(schema, "", "", found, draft_of(schema), max_depth)
    for place, node in found.nodes.items():
        if isinstance(node, dict) and "$ref" in node:
            node["$ref"] = ref_to(_target(cast(str, node["$ref"]), f"{found.was_at[place]}/$ref", found))
    return found


def _visit(schema: object, was: str, now: str, found: Outline, draft: int, depth_left: int) -> Subschema:
    if depth_left < 0:
        raise SchemaError(
            "subschemas are nested too deeply",
            code="too_deep",
            path=was,
            hint="Flatten the schema, or move inner parts to $defs and refer to them.",
        )
    check_schema(schema, was)
    found.now_at[was], found.was_at[now] = now, was
    if isinstance(schema, bool):
        found.nodes[now] = schema
        return schema
    before = rewrite(cast("dict[str, object]", schema), was, draft=draft, is_root=not now)
    copied = {name: _copy(value) for name, value in before.keywords.items()}
    for keyword, value in copied.items():
        check_shape(keyword, value, f"{was}/{keyword}")
    found.nodes[now] = copied
    _remember_anchor(copied, was, now, found)
    for child in list(children(copied)):
        old = before.moved.get(child.tokens, child.tokens)
        at = (was + pointer_to(old), now + pointer_to(child.tokens))
        _put(copied, child.tokens, _visit(child.schema, *at, found, draft, depth_left - 1))
    return copied


def _put(node: dict[str, object], tokens: tuple[str | int, ...], inner: Subschema) -> None:
    if len(tokens) == 1:
        node[cast(str, tokens[0])] = inner
    else:
        cast("dict[str | int, object]", node[cast(str, tokens[0])])[tokens[1]] = inner


def _copy(value: object) -> object:
    """The same JSON, sharing nothing with the original; tuples become lists."""
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_copy(inner) for inner in cast("list[object]", value)]
    return value


def _remember_anchor(node: dict[str, object], was: str, now: str, found: Outline) -> None:
    anchor = node.pop("$anchor", None)
    if anchor is None:
        return
    if anchor in found.anchors:
        raise SchemaError(
            f"two places have the anchor {anchor!r}",
            code="duplicate_anchor",
            path=f"{was}/$anchor",
            hint="Give each $anchor another name.",
        )
    found.anchors[cast(str, anchor)] = now


def _target(ref: str, path: str, found: Outline) -> str:
    document, _, fragment = ref.partition("#")
    if document and document != found.own_id:
        raise SchemaError(
            f"the reference {ref!r:.80} leads out of the schema, and nothing is fetched",
            code="remote_ref",
            path=path,
            hint="Copy the schema that is meant under $defs and refer to it as #/$defs/name.",
        )
    if fragment and not fragment.startswith("/"):
        place = found.anchors.get(fragment)
    else:
        place = found.now_at.get(from_fragment(fragment))
    if place is None:
        raise SchemaError(
            f"the reference {ref!r:.80} leads to no schema",
            code="dangling_ref",
            path=path,
            hint="Put the schema that is meant under $defs and refer to it as #/$defs/name.",
        )
    return place


def local_target(ref: object, root: object) -> Subschema | None:
    """What a local reference names inside a schema that need not have been admitted; None where it names no schema."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    place = root
    for key in tokens_of(from_fragment(ref[1:])):
        if isinstance(place, dict):
            place = cast("dict[str, object]", place).get(key)
        elif isinstance(place, list) and key.isdecimal() and int(key) < len(cast("list[object]", place)):
            place = cast("list[object]", place)[int(key)]
        else:
            return None
    return cast(Subschema, place) if isinstance(place, dict | bool) else None
