"""Claims: which schema keywords hold for a call that was generated under a rule. Receipts are made from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.byte_cache import byte_cached, text_bytes
from ferrule.core.json_text import dumps, loads
from ferrule.core.tool import ToolDefinition
from ferrule.rules.relaxation import losses_of
from ferrule.schema.keywords import children
from ferrule.schema.pointer import escape, from_fragment, pointer_to
from ferrule.schema.refs import local_target
from ferrule.schema.target_limits import CHECKED_FORMATS, CONSTRAINT_KEYWORDS

# These describe the content of a string, which no validator decodes.
_ABOUT_CONTENT = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})


@dataclass(frozen=True, slots=True)
class Claims:
    """Every constraining keyword of a schema, in exactly one of three lists.

    `enforced` keywords hold while decoding, `checked` ones are validated after decoding, `unchecked` ones by nobody.
    """

    enforced: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


GRAMMAR = "grammar"
"""The name under which claims list the grammar of a custom tool, beside the keywords of its schema."""


def claims_of(tool: ToolDefinition, encoding: str | None, *, holds_grammar: bool = False) -> Claims:
    """The claims for a call to the tool.

    Args:
        tool: The tool.
        encoding: How decoding constrains its arguments; None: not at all.
        holds_grammar: Whether decoding also holds the grammar of a custom tool.
    """
    claims = _claims(tool.name, dumps(tool.parameters), encoding)
    if tool.input_grammar is None:
        return claims
    if encoding is not None and holds_grammar:
        return replace(claims, enforced=tuple(sorted((*claims.enforced, GRAMMAR))))
    return replace(claims, checked=tuple(sorted((*claims.checked, GRAMMAR))))


# Measured: text and claims take two to five times the text.
@byte_cached(text_bytes(4))
def _claims(name: str, schema: str, encoding: str | None) -> Claims:
    parameters = cast("dict[str, Any]", loads(schema))
    used, unchecked = _keywords_used(parameters)
    if encoding is None:
        return Claims((), tuple(sorted(used)), tuple(sorted(unchecked)))
    lost_places = {loss.path for loss in losses_of(ToolDefinition(name, "", parameters), encoding)}
    lost_keywords = _lost_keywords(parameters, lost_places)
    # A keyword that is not enforced in one place of the schema is not claimed as enforced anywhere.
    return Claims(tuple(sorted(used - lost_keywords)), tuple(sorted(used & lost_keywords)), tuple(sorted(unchecked)))


def _lost_keywords(root: Mapping[str, Any], lost_places: set[str]) -> set[str]:
    """The keywords that are lost in some place: there themselves, or because a keyword around them is lost.

    What `not`, `if`, `contains` or `propertyNames` says is lost with it, also behind a reference.
    """
    lost: set[str] = set()
    visited: set[tuple[int, bool]] = set()

    def walk(node: object, path: str, is_lost: bool) -> None:
        if not isinstance(node, dict) or (id(cast(object, node)), is_lost) in visited:
            return
        fields = cast("dict[str, Any]", node)
        visited.add((id(fields), is_lost))
        lost.update(keyword for keyword in fields if is_lost or f"{path}/{escape(keyword)}" in lost_places)
        for child in children(fields):
            # A definition is lost or not where it is referred to.
            is_child_lost = child.tokens[0] != "$defs" and (
                is_lost or f"{path}/{escape(str(child.tokens[0]))}" in lost_places
            )
            walk(child.schema, path + pointer_to(child.tokens), is_child_lost)
        if "$ref" in fields:
            walk(local_target(fields["$ref"], root), from_fragment(str(fields["$ref"])[1:]), is_lost)

    walk(root, "", False)
    return lost


def _keywords_used(schema: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    used: set[str] = set()
    unchecked: set[str] = set()
    for node in _nodes(schema):
        for keyword, value in node.items():
            if keyword == "format" and value not in CHECKED_FORMATS:
                unchecked.add(f"format:{value}")
            elif keyword in _ABOUT_CONTENT:
                unchecked.add(keyword)
            elif keyword in CONSTRAINT_KEYWORDS and not (keyword == "uniqueItems" and value is False):
                used.add(keyword)
    return used, unchecked


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, dict):
        fields = cast("dict[str, Any]", schema)
        yield fields
        for child in children(fields):
            yield from _nodes(child.schema)
