"""Writing arguments one to an element. The inverse of `read_fields`: what a value cannot carry is refused, not bent."""

from __future__ import annotations

from ferrule.core.json_text import dumps
from ferrule.schema.notation import JSON
from ferrule.schema.value_decoder import encode
from ferrule.schema.value_text import UnspellableError, members, spell_value
from ferrule.wire.node import Fields, Kind, Lit, Slot, Space
from ferrule.wire.stops import Stops
from ferrule.wire.tool_offer import Offered

_TYPES: dict[type, str] = {dict: "object", list: "array", bool: "boolean", type(None): "null"}


def spell_fields(node: Fields, tool: str, arguments: str, offered: Offered) -> str:
    return node.sep.canonical.join(_field(node, tool, key, value, offered) for key, value in members(arguments))


def _field(node: Fields, tool: str, key: str, value: object, offered: Offered) -> str:
    kind = _kind_of(node, value)
    raw = _raw(value, kind, key, offered.types(tool, key), node.python_literals)
    written: list[str] = []
    for part in node.field.parts:
        match part:
            case Lit() | Space():
                written.append(part.canonical)
            case Slot.KEY:
                written.append(key)
            case Slot.KIND:
                written.append(kind.word if kind else "")
            case _:
                written.append(_guarded(node, key, raw))
    return "".join(written)


def _kind_of(node: Fields, value: object) -> Kind | None:
    name = json_type(value)
    return next((kind for kind in node.kinds if name in kind.types), None)


def json_type(value: object) -> str:
    """The JSON type of a value read by `loads_verbatim`, in which numbers are a kind of string."""
    if value.__class__ is str:
        return "string"
    return _TYPES.get(value.__class__, "number")


def _raw(value: object, kind: Kind | None, key: str, allowed: frozenset[str], python_literals: bool) -> str:
    if kind is not None:
        return str(value) if kind.is_raw else spell_value(value, JSON)
    json_text = dumps(value) if value.__class__ is str else spell_value(value, JSON)
    raw = encode(json_text, allowed, python_literals)
    if raw is None:
        wanted = " or ".join(sorted(allowed))
        raise UnspellableError(f"the value of {key!r} is a {json_type(value)}, and the tool takes {wanted}")
    return raw


def _guarded(node: Fields, key: str, raw: str) -> str:
    """The raw value, between quotes if it needs them; refused if it would end before its end."""
    if node.quote and any(mark in raw for mark in node.quote_when):
        _refuse(raw, (node.quote[1],), key)
        return node.quote[0] + raw + node.quote[1]
    last = node.field.parts[node.field.parts.index(Slot.VALUE) + 1]
    if isinstance(last, Lit):
        _refuse(raw, last.spellings, key)
    if node.quote and raw.startswith(node.quote[0]):
        raise UnspellableError(f"the value of {key!r} begins with {node.quote[0]!r}, which would be taken for a quote")
    return raw


def _refuse(raw: str, closers: tuple[str, ...], key: str) -> None:
    if Stops(closers).scan(raw + closers[0], 0, True).at < len(raw):
        raise UnspellableError(
            f"the value of {key!r} contains {closers[-1]!r}, which ends it, and nothing escapes that"
        )
