"""Notations: how a model family writes values, such as JSON, Python literals or Gemma's token-quoted strings.

This module is data only. `reader` converts a notation to JSON text, and `value_text` converts JSON text to a notation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


class Escapes(Enum):
    """What a backslash means inside a string."""

    JSON = "json"
    PYTHON = "python"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Quote:
    """One way to quote a string. `run` matches characters that need no escape.

    With `ends_before`, the closing quote counts only if one of these characters follows it. This is for families whose
    own template does not escape it.
    """

    open: str
    close: str
    escapes: Escapes
    ends_before: str = ""
    run: re.Pattern[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # A string without escapes ends only at its closing quote, so only the first character of that is special.
        stops = re.escape(self.close[0]) + ("" if self.escapes is Escapes.NONE else r"\\\x00-\x1f")
        object.__setattr__(self, "run", re.compile(f"[^{stops}]*"))


@dataclass(frozen=True, slots=True)
class Container:
    """A pair of brackets: its JSON equivalent, whether it holds keys, and what joins a key to its value."""

    close: str
    json_open: str
    json_close: str
    assign: str = ""

    @property
    def is_keyed(self) -> bool:
        return bool(self.assign)


OBJECT = Container("}", "{", "}", ":")
ARRAY = Container("]", "[", "]")
TUPLE = Container(")", "[", "]")
KEYWORDS = Container(")", "{", "}", "=")

CONSTANTS = {"true": "true", "false": "false", "null": "null"}
PYTHON_CONSTANTS = {**CONSTANTS, "True": "true", "False": "false", "None": "null"}

JSON_QUOTE = Quote('"', '"', Escapes.JSON)
PYTHON_DOUBLE = Quote('"', '"', Escapes.PYTHON)
PYTHON_SINGLE = Quote("'", "'", Escapes.PYTHON)

# What a key without quotes may contain: any visible character but the punctuation that delimits keys and values.
# The renderer, the reader and the grammar all use these ranges, so that none accepts what another refuses.
BARE_KEY_CHARACTERS = (
    *(("!", "!"), ("#", "&"), ("*", "+"), ("-", "9"), (";", ";")),
    *(("?", "Z"), ("\\", "\\"), ("^", "z"), ("~", "~")),
    *(("\u00a1", "\u167f"), ("\u1681", "\u1fff"), ("\u200b", "\u2027"), ("\u202a", "\u202e")),
    *(("\u2030", "\u205e"), ("\u2060", "\u2fff"), ("\u3001", "\ud7ff"), ("\ue000", "\U0010ffff")),
)
BARE_KEY = re.compile(
    "[" + "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in BARE_KEY_CHARACTERS) + "]*"
)


@dataclass(frozen=True, slots=True, eq=False)
class Notation:
    """How values are written and read.

    The first of `quotes` is written; the others are accepted too. `constants` maps what is read to JSON, and
    `written_constants` maps JSON to what is written.
    """

    name: str
    quotes: tuple[Quote, ...]
    constants: Mapping[str, str] = field(default_factory=lambda: CONSTANTS)
    written_constants: Mapping[str, str] = field(default_factory=lambda: CONSTANTS)
    containers: Mapping[str, Container] = field(default_factory=lambda: {"{": OBJECT, "[": ARRAY})
    has_bare_keys: bool = False
    allows_trailing_comma: bool = False
    comma: str = ", "
    colon: str = ": "
    objects: Notation | None = None
    """The notation for objects inside the arguments, if it differs. This notation must be able to read it too."""


JSON = Notation("json", (JSON_QUOTE,))
JSON_BARE_KEYS = Notation("json_bare_keys", (JSON_QUOTE,), has_bare_keys=True)
JSON_COMPACT = Notation("json_compact", (JSON_QUOTE,), comma=",", colon=":")
PYTHON = Notation(
    "python",
    (PYTHON_SINGLE, PYTHON_DOUBLE),
    constants=PYTHON_CONSTANTS,
    written_constants={"true": "True", "false": "False", "null": "None"},
    containers={"{": OBJECT, "[": ARRAY, "(": TUPLE},
    allows_trailing_comma=True,
)
PYTHON_DOUBLE_QUOTED = Notation(
    "python_double_quoted",
    (PYTHON_DOUBLE, PYTHON_SINGLE),
    constants=PYTHON_CONSTANTS,
    written_constants=PYTHON.written_constants,
    containers=PYTHON.containers,
    allows_trailing_comma=True,
)


PYTHON_COMPACT = replace(PYTHON, name="python_compact", comma=",")
PYTHON_JSON_OBJECTS = replace(
    PYTHON,
    name="python_json_objects",
    quotes=tuple(replace(quote, ends_before=",)]}:") for quote in PYTHON.quotes),
    objects=JSON,
)


def token_quoted(quote: str, *, quotes_inner_keys: bool = False) -> Notation:
    """Unquoted keys, and raw strings between two equal markers, as Gemma writes them. JSON strings are read too."""
    bare = Notation(
        f"token_quoted {quote}",
        (Quote(quote, quote, Escapes.NONE), JSON_QUOTE),
        constants=PYTHON_CONSTANTS,
        has_bare_keys=True,
        comma=",",
        colon=":",
    )
    return replace(bare, objects=replace(bare, has_bare_keys=False)) if quotes_inner_keys else bare
