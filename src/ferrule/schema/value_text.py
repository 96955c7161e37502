"""Spell: JSON text written in a notation. The inverse of `reader`, number texts kept as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import cast

from ferrule.core.json_text import dumps
from ferrule.schema.notation import Escapes, Notation, Quote

_BARE_KEY = re.compile(r"[^\s:=,{}\[\]()\"'<>|]+")


class _NumberText(str):
    """A number as its text, so that 1.0, 1e3 and integers of any length are written as they were."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NumberText) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class UnspellableError(ValueError):
    """The notation has no spelling for this text."""


_decode = json.JSONDecoder(parse_float=_NumberText, parse_int=_NumberText).decode


def loads_verbatim(json_text: str) -> object:
    """The value of a JSON text with numbers as text that prints verbatim through `spell_value`."""
    return _decode(json_text)


def members(arguments: str) -> list[tuple[str, object]]:
    """The members of a JSON object in their order. `UnspellableError` when the text is some other value."""
    value = loads_verbatim(arguments)
    if not isinstance(value, dict):
        raise UnspellableError("the arguments are not an object")
    return list(cast("dict[str, object]", value).items())


def spell(json_text: str, notation: Notation) -> str:
    """A JSON text in another notation. `UnspellableError` when some string cannot be written in it."""
    return spell_value(loads_verbatim(json_text), notation)


def spell_value(value: object, notation: Notation) -> str:
    match value:
        case _NumberText():
            return str(value)
        case str():
            return spell_string(value, notation.quotes[0])
        case dict():
            inner = notation.objects or notation
            pairs = (
                spell_key(key, inner) + inner.colon + spell_value(item, inner)
                for key, item in cast("dict[str, object]", value).items()
            )
            return "{" + inner.comma.join(pairs) + "}"
        case list():
            items = (spell_value(item, notation) for item in cast("list[object]", value))
            return "[" + notation.comma.join(items) + "]"
        case _:
            return notation.written[dumps(value)]


def spell_key(key: str, notation: Notation) -> str:
    if not notation.has_bare_keys:
        return spell_string(key, notation.quotes[0])
    return bare_key(key)


def bare_key(key: str) -> str:
    if not _BARE_KEY.fullmatch(key):
        raise UnspellableError(f"the key {key!r} cannot be written without quotes")
    return key


def spell_string(text: str, quote: Quote) -> str:
    return quote.open + _SPELLINGS[quote.escapes](text, quote) + quote.close


def _raw(text: str, quote: Quote) -> str:
    if (text + quote.close).find(quote.close) < len(text):
        raise UnspellableError(f"the string contains {quote.close!r}, which ends it, and there is no escape for that")
    return text


def _json(text: str, quote: Quote) -> str:
    return dumps(text)[1:-1]


def _python(text: str, quote: Quote) -> str:
    body = dumps(text)[1:-1]
    return body if quote.close == '"' else body.replace('\\"', '"').replace("'", "\\'")


_SPELLINGS: dict[Escapes, Callable[[str, Quote], str]] = {
    Escapes.NONE: _raw,
    Escapes.JSON: _json,
    Escapes.PYTHON: _python,
}
