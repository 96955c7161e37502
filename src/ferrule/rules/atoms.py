"""Shared rule nodes for lowered values: numbers, literals and unquoted keys."""

from __future__ import annotations

from ferrule.rules.rule import Chars, Repeat, Text, maybe, once, one_of, seq
from ferrule.schema.notation import BARE_KEY_CHARACTERS

BOOLEAN = ("true", "false")
NULL = "null"

_DIGIT = Chars((("0", "9"),))
_FRACTION = maybe(seq(".", Repeat(_DIGIT, 1, 40)))
_EXPONENT = maybe(seq(Chars((("e", "e"), ("E", "E"))), maybe(Chars((("+", "+"), ("-", "-")))), Repeat(_DIGIT, 1, 3)))
_SIGN = maybe(Text("-"))

# Forty digits hold every double and every 128-bit integer. The limit stops a model that repeats digits without end.
NATURAL = once(one_of(Text("0"), seq(Chars((("1", "9"),)), Repeat(_DIGIT, 0, 40))))
INTEGER = once(seq(_SIGN, NATURAL))
POSITIVE_NUMBER = once(seq(NATURAL, _FRACTION, _EXPONENT))
NUMBER = once(seq(_SIGN, NATURAL, _FRACTION, _EXPONENT))
BARE_KEY = Repeat(Chars(BARE_KEY_CHARACTERS), 1, 41)
