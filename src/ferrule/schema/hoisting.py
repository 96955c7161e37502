"""Hoist the `$defs` of a schema that is placed inside another one, and update its references."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ferrule.schema.pointer import from_fragment, ref_to, tokens_of


def hoist(
    schema: dict[str, object], definitions: dict[str, object], free_name: Callable[[str], str]
) -> dict[str, object]:
    """Move the `$defs` of a schema to `definitions`, under names that are free there; returns the rest."""
    own_definitions = cast("dict[str, object]", schema.get("$defs", {}))
    names: dict[str, str] = {}
    for name, inner in own_definitions.items():
        names[name] = name if definitions.get(name) == inner else free_name(name)
        definitions[names[name]] = inner
    renamed = {name: new for name, new in names.items() if name != new}
    for name in own_definitions:
        definitions[names[name]] = _rename_refs(own_definitions[name], renamed)
    rest = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    return cast("dict[str, object]", _rename_refs(rest, renamed))


def _rename_refs(value: object, renamed: dict[str, str]) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {
            name: _new_ref(inner, renamed)
            if name == "$ref" and isinstance(inner, str)
            else _rename_refs(inner, renamed)
            for name, inner in members.items()
        }
    if isinstance(value, list):
        return [_rename_refs(inner, renamed) for inner in cast("list[object]", value)]
    return value


def _new_ref(ref: str, renamed: dict[str, str]) -> str:
    tokens = tokens_of(from_fragment(ref[1:])) if ref.startswith("#/") else ()
    if len(tokens) == 2 and tokens[0] == "$defs" and tokens[1] in renamed:
        return ref_to(f"/$defs/{renamed[tokens[1]]}")
    return ref
