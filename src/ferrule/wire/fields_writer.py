"""Write arguments as one element each: the inverse of `read_fields`.

A value that the format cannot express raises an error; it is never altered to fit.
"""

from __future__ import annotations

from ferrule.core.json_text import dumps
from ferrule.schema.notation import JSON
from ferrule.schema.value_decoder import encode
from ferrule.schema.value_text import UnrepresentableError, members, write_value
from ferrule.wire.node import Fields, Kind, Lit, Slot, Space
from ferrule.wire.stops import Stops
from ferrule.wire.tool_offer import ToolOffer

_TYPES: dict[type, str] = {dict: "object", list: "array", bool: "boolean", type(None): "null"}


def write_fields(node: Fields, tool: str, arguments: str, offer: ToolOffer) -> str:
    return node.sep.canonical.join(_field(node, tool, key, value, offer) for key, value in members(arguments))


def _field(node: Fields, tool: str, key: str, value: object, offer: ToolOffer) -> str:
    kind = _kind_of(node, value)
    raw = _raw(value, kind, key, offer.types(tool, key), node.python_literals)
    pieces: list[str] = []
    for part in node.field.parts:
        match part:
            case Lit() | Space():
                pieces.append(part.canonical)
            case Slot.KEY:
                pieces.append(key)
            case Slot.KIND:
                pieces.append(kind.word if kind else "")
            case _:
                pieces.append(_quote_value(node, key, raw))
    return "".join(pieces)


def _kind_of(node: Fields, value: object) -> Kind | None:
    name = json_type(value)
    return next((kind for kind in node.kinds if name in kind.types), None)


def json_type(value: object) -> str:
    """The JSON type of a value from `loads_verbatim`, which returns numbers as a subclass of str."""
    if value.__class__ is str:
        return "string"
    return _TYPES.get(value.__class__, "number")


def _raw(value: object, kind: Kind | None, key: str, allowed: frozenset[str], python_literals: bool) -> str:
    if kind is not None:
        return str(value) if kind.is_raw else write_value(value, JSON)
    json_text = dumps(value) if value.__class__ is str else write_value(value, JSON)
    raw = encode(json_text, allowed, python_literals)
    if raw is None:
        expected = " or ".join(sorted(allowed))
        raise UnrepresentableError(f"the value of {key!r} is of type {json_type(value)}; the tool expects {expected}")
    return raw


def _quote_value(node: Fields, key: str, raw: str) -> str:
    """The raw value, quoted if necessary. Raises if the value contains the text that ends it."""
    if node.quote and any(character in raw for character in node.quote_when):
        _refuse(raw, (node.quote[1],), key)
        return node.quote[0] + raw + node.quote[1]
    last = node.field.parts[node.field.parts.index(Slot.VALUE) + 1]
    if isinstance(last, Lit):
        _refuse(raw, last.spellings, key)
    if node.quote and raw.startswith(node.quote[0]):
        raise UnrepresentableError(
            f"the value of {key!r} begins with {node.quote[0]!r}, which would be read as a quote"
        )
    return raw


def _refuse(raw: str, closers: tuple[str, ...], key: str) -> None:
    if Stops(closers).scan(raw + closers[0], 0, True).at < len(raw):
        raise UnrepresentableError(
            f"the value of {key!r} contains {closers[-1]!r}, which would end it; this format has no escape for it"
        )
