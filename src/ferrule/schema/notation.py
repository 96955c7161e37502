"""Notation: how a family writes values down. JSON is one; Python literals and Gemma's token-quoted literals are others.

Data only. `reader` reads any of them into JSON text and `spell` writes JSON text in any of them.
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
    """One way to write a string. `run` matches characters that stand for themselves.

    With `ends_before`, the closing mark counts only where one of these characters follows: for families whose own
    template forgets to escape it.
    """

    open: str
    close: str
    escapes: Escapes
    ends_before: str = ""
    run: re.Pattern[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # A quote without escapes ends at its closer and nowhere else, so only the closer's first character is special.
        stops = re.escape(self.close[0]) + ("" if self.escapes is Escapes.NONE else r"\\\x00-\x1f")
        object.__setattr__(self, "run", re.compile(f"[^{stops}]*"))


@dataclass(frozen=True, slots=True)
class Container:
    """Brackets: what they are in JSON, whether they hold keys, and how a key is joined to its value."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Notation:
    """The first quote is the one written, the others are read too; `constants` maps what is read to JSON."""

    name: str
    quotes: tuple[Quote, ...]
    constants: Mapping[str, str] = field(default_factory=lambda: CONSTANTS)
    written: Mapping[str, str] = field(default_factory=lambda: CONSTANTS)
    containers: Mapping[str, Container] = field(default_factory=lambda: {"{": OBJECT, "[": ARRAY})
    has_bare_keys: bool = False
    allows_trailing_comma: bool = False
    comma: str = ", "
    colon: str = ": "
    objects: Notation | None = None
    """Another notation in which objects inside the arguments are written; everything here must read it too."""


JSON = Notation("json", (JSON_QUOTE,))
JSON_BARE_KEYS = Notation("json_bare_keys", (JSON_QUOTE,), has_bare_keys=True)
JSON_COMPACT = Notation("json_compact", (JSON_QUOTE,), comma=",", colon=":")
PYTHON = Notation(
    "python",
    (PYTHON_SINGLE, PYTHON_DOUBLE),
    constants=PYTHON_CONSTANTS,
    written={"true": "True", "false": "False", "null": "None"},
    containers={"{": OBJECT, "[": ARRAY, "(": TUPLE},
    allows_trailing_comma=True,
)
PYTHON_DOUBLE_QUOTED = Notation(
    "python_double_quoted",
    (PYTHON_DOUBLE, PYTHON_SINGLE),
    constants=PYTHON_CONSTANTS,
    written=PYTHON.written,
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
    """Bare keys and strings between two equal marks, raw: Gemma's way. Plain JSON strings are read as well."""
    bare = Notation(
        f"token_quoted {quote}",
        (Quote(quote, quote, Escapes.NONE), JSON_QUOTE),
        constants=PYTHON_CONSTANTS,
        has_bare_keys=True,
        comma=",",
        colon=":",
    )
    return replace(bare, objects=replace(bare, has_bare_keys=False)) if quotes_inner_keys else bare
