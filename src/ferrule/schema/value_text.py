"""Write JSON text in a notation: the inverse of `reader`. Numbers keep their text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

from ferrule.core.json_text import dumps
from ferrule.schema.notation import BARE_KEY, Escapes, Notation, Quote


class _NumberText(str):
    """A number as its text, so that 1.0, 1e3 and integers of any length are written unchanged."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NumberText) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class UnrepresentableError(ValueError):
    """The notation cannot represent this text."""


_decode = json.JSONDecoder(parse_float=_NumberText, parse_int=_NumberText).decode


def loads_verbatim(json_text: str) -> object:
    """Parse a JSON text, with numbers as text that `write_value` writes unchanged."""
    return _decode(json_text)


def members(arguments: str) -> list[tuple[str, object]]:
    """The members of a JSON object in order. Raises `UnrepresentableError` if the text is another value."""
    value = loads_verbatim(arguments)
    if not isinstance(value, dict):
        raise UnrepresentableError("the arguments are not an object")
    return list(cast("dict[str, object]", value).items())


def write_json(json_text: str, notation: Notation) -> str:
    """Write a JSON text in a notation. Raises `UnrepresentableError` if the notation cannot represent a string."""
    return write_value(loads_verbatim(json_text), notation)


def write_value(value: object, notation: Notation) -> str:
    """Write a value from `loads_verbatim` in a notation."""
    match value:
        case _NumberText():
            return str(value)
        case str():
            return write_string(value, notation.quotes[0])
        case dict():
            inner = notation.objects or notation
            pairs = (
                write_key(key, inner) + inner.colon + write_value(item, inner)
                for key, item in cast("dict[str, object]", value).items()
            )
            return "{" + inner.comma.join(pairs) + "}"
        case list():
            items = (write_value(item, notation) for item in cast("list[object]", value))
            return "[" + notation.comma.join(items) + "]"
        case _:
            return notation.written_constants[dumps(value)]


def write_key(key: str, notation: Notation) -> str:
    """Write an object key in a notation, with or without quotes."""
    return bare_key(key, notation) if notation.has_bare_keys else write_string(key, notation.quotes[0])


def bare_key(key: str, notation: Notation) -> str:
    """The key without quotes, if it does not need them: `f(city=1, "zip code"=2)`."""
    return key if key and BARE_KEY.fullmatch(key) else write_string(key, notation.quotes[0])


def write_string(text: str, quote: Quote) -> str:
    """Write a string in the given quotes."""
    return quote.open + _WRITERS[quote.escapes](text, quote) + quote.close


def _raw(text: str, quote: Quote) -> str:
    if (text + quote.close).find(quote.close) < len(text):
        raise UnrepresentableError(
            f"the string contains {quote.close!r}, which ends it, and there is no escape for that"
        )
    return text


def _json(text: str, quote: Quote) -> str:
    return dumps(text)[1:-1]


def _python(text: str, quote: Quote) -> str:
    body = dumps(text)[1:-1]
    return body if quote.close == '"' else body.replace('\\"', '"').replace("'", "\\'")


_WRITERS: dict[Escapes, Callable[[str, Quote], str]] = {
    Escapes.NONE: _raw,
    Escapes.JSON: _json,
    Escapes.PYTHON: _python,
}
