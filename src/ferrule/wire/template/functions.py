"""Words: the filters, methods and operators that a chat template may use, each measured before it makes anything.

A table and not a list of what is forbidden: what is not here cannot be used. It knows nothing of Jinja.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from html import escape
from operator import add, mul
from string import Formatter
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.errors import TemplateError
from ferrule.wire.template.budget import MOST_BITS, Budget, over

Word = Callable[..., Any]

_WIDEST = 999
_MOST_STRIPPED = 100
_ITEM = 8
_DATE = re.compile(r"(?:[^%]|%-?[A-Za-z%])*")
_WIDE = re.compile(r"%[^a-zA-Z%]*\d")
_DIRECTIVE = re.compile(r"%(?:\([^()]*\))?[-+ #0]*(\d{0,3})(?:\.\d{0,3})?[a-zA-Z%]")


def joined(budget: Budget, *values: Any) -> str:
    """Texts in a row: what `~` makes."""
    budget.fit(sum(map(budget.size, values)))
    return "".join(map(str, values))


def sliced(budget: Budget, value: Any, start: Any, stop: Any, step: Any) -> Any:
    budget.handle(budget.length(value))
    return value[slice(start, stop, step)]


def operated(budget: Budget, operator: str, left: Any, right: Any) -> Any:
    budget.step()
    return budget.made(_OPERATORS[operator](budget, left, right))


def _add(budget: Budget, left: Any, right: Any) -> Any:
    if not isinstance(left, int | float):
        budget.fit(budget.size(left) + budget.size(right))
    return add(left, right)


def _multiply(budget: Budget, left: Any, right: Any) -> Any:
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int):
            budget.fit(budget.size(cast("object", value)) * max(times, 0))
    return mul(left, right)


def _power(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MOST_BITS:
        raise over("makes a number too large to print")
    return left**right


def _modulo(budget: Budget, left: Any, right: Any) -> Any:
    return _percent(budget, left, right) if isinstance(left, str) else left % right


def _percent(budget: Budget, text: str, values: Any) -> str:
    """The `%` of strings, with widths that are small and written out."""
    if "%" in _DIRECTIVE.sub("", text):
        raise over(f"asks for a field wider than {_WIDEST}, or in an unusual form")
    budget.fit(len(text) + text.count("%") * budget.size(values) + _WIDEST * len(_WIDE.findall(text)))
    return text % values


_OPERATORS: Mapping[str, Word] = {"+": _add, "*": _multiply, "**": _power, "%": _modulo}


def formatted(budget: Budget, text: str, *values: Any, **named: Any) -> str:
    """`str.format` with plain fields only: a width could make a gigabyte, and a path could leave the sandbox."""
    fields = [field for field in Formatter().parse(text) if field[1] is not None]
    if any(spec or conversion or not re.fullmatch(r"\w*", name or "") for _, name, spec, conversion in fields):
        raise TemplateError("the template uses format() with more than plain fields", hint="Plain are {}, {0}, {name}.")
    most = max(map(budget.size, (*values, *named.values())), default=0)
    budget.fit(len(text) + len(fields) * most)
    return text.format(*values, **named)


def to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: `<` and what is not ASCII stay as they are."""
    if len(str(indent)) > 16 or (isinstance(indent, int) and indent > 16) or sum(map(len, separators or ())) > 16:
        raise over("asks for an indent or a separator of more than 16")
    budget.fit(budget.size(value))
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=tuple(separators) if separators else None,
        sort_keys=sort_keys,
    )
    if indent is None:
        return encoder.encode(value)
    # Deep values are mostly indentation: it is counted as it comes.
    pieces: list[str] = []
    size = 0
    for piece in encoder.iterencode(value):
        size += len(piece)
        if size > budget.limits.value:
            raise over(f"writes JSON of more than {budget.limits.value} characters")
        pieces.append(piece)
    return "".join(pieces)


def _listed(budget: Budget, values: Iterable[Any]) -> list[Any]:
    """A new list of what is iterated; no more than its source holds, since nothing here is without end."""
    taken: list[Any] = []
    for value in values:
        budget.handle(_ITEM)
        taken.append(value)
        if len(taken) * _ITEM > budget.limits.value:
            raise over(f"makes a list of more than {len(taken)} items")
    return taken


def _join(budget: Budget, values: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
    items = _listed(budget, values)
    if attribute is not None:
        items = [item[attribute] for item in items]
    budget.fit(sum(map(budget.size, items)) + len(items) * budget.size(d))
    return str(d).join(map(str, items))


def _replace(budget: Budget, text: Any, old: str, new: str, count: int | None = None) -> str:
    text = _text(budget, text)
    found = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    budget.fit(len(text) + found * len(new))
    return text.replace(old, new, found)


def _indent(budget: Budget, text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    lead = width if isinstance(width, str) else " " * min(width, _WIDEST)
    budget.fit(len(text) + (_line_breaks(text) + 1) * (len(lead) + _ITEM))
    # The added newline makes an empty text one empty line.
    head, *others = (text + "\n").splitlines()
    shifted = [lead + line if line or blank else line for line in others]
    return (lead if first else "") + "\n".join((head, *shifted))


def _line_breaks(text: str) -> int:
    return sum(map(text.count, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))


def _padded(way: str) -> Word:
    def pad(budget: Budget, text: Any, width: int = 80, *fill: str) -> str:
        text = _text(budget, text)
        budget.fit(max(len(text), width))
        return getattr(text, way)(width, *fill)

    return pad


def _text(budget: Budget, value: Any) -> str:
    budget.fit(budget.size(value))
    return value if isinstance(value, str) else str(value)


def _of_text(change: Callable[[str], Any]) -> Word:
    def changed(budget: Budget, value: Any) -> Any:
        return change(_text(budget, value))

    return changed


def _stripped(way: str) -> Word:
    def strip(budget: Budget, value: Any, chars: str | None = None) -> str:
        # Each character is looked for among all of these.
        if chars is not None and len(chars) > _MOST_STRIPPED:
            raise over(f"strips more than {_MOST_STRIPPED} different characters")
        return getattr(_text(budget, value), way)(chars)

    return strip


def _reverse(budget: Budget, value: Any) -> Any:
    return _text(budget, value)[::-1] if isinstance(value, str) else _listed(budget, value)[::-1]


def _items(budget: Budget, value: Any) -> list[Any]:
    return _listed(budget, cast("Mapping[Any, Any]", value).items()) if isinstance(value, Mapping) else []


def _round(budget: Budget, value: Any, precision: int = 0) -> Any:
    if abs(precision) > _ITEM * 4:
        raise over("asks for too many digits")
    return round(value, precision)


def _from_json(budget: Budget, value: Any) -> Any:
    text = _text(budget, value)
    # An empty list takes fifty bytes of memory for two characters of text.
    budget.fit(_ITEM * len(text))
    return loads(text)


def _filled(budget: Budget, text: str, *values: Any, **named: Any) -> str:
    return _percent(budget, text, named or values)


# Filters by name: the budget, the value, then what stands between the parentheses.
FILTERS: Mapping[str, Word] = {
    "capitalize": _of_text(str.capitalize),
    "center": _padded("center"),
    "e": _of_text(escape),
    "escape": _of_text(escape),
    "format": _filled,
    "from_json": _from_json,
    "indent": _indent,
    "items": _items,
    "join": _join,
    "list": _listed,
    "lower": _of_text(str.lower),
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "safe": _text,
    "string": _text,
    "tojson": to_json,
    "trim": _stripped("strip"),
    "upper": _of_text(str.upper),
}


def _plain(name: str) -> Word:
    """A method that looks through all of its value and makes nothing larger."""

    def call(budget: Budget, value: Any, *given: Any, **named: Any) -> Any:
        budget.handle(budget.size(value) + sum(map(budget.size, given)))
        return getattr(value, name)(*given, **named)

    return call


def _quick(name: str) -> Word:
    """A method that looks at its arguments and at no more of its value."""

    def call(budget: Budget, value: Any, *given: Any, **named: Any) -> Any:
        budget.handle(sum(map(budget.size, given)))
        return getattr(value, name)(*given, **named)

    return call


def _view(name: str) -> Word:
    """A list in place of a view, which nothing here could measure."""

    def view(budget: Budget, value: Any) -> list[Any]:
        return _listed(budget, getattr(value, name)())

    return view


def _joined_by(budget: Budget, text: str, values: Iterable[Any]) -> str:
    return _join(budget, values, text)


def _split(way: str) -> Word:
    def split(budget: Budget, value: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        pieces = len(value) // 2 if sep is None else value.count(sep)
        budget.fit(len(value) + _ITEM * (pieces if maxsplit < 0 else min(pieces, maxsplit)))
        return getattr(value, way)(sep, maxsplit)

    return split


def _split_lines(budget: Budget, value: str, keepends: bool = False) -> list[str]:
    budget.fit(len(value) + _ITEM * _line_breaks(value))
    return value.splitlines(keepends)


_READ_TEXT = (
    *("capitalize", "casefold", "count", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit"),
    *("isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "lower"),
    *("partition", "removeprefix", "removesuffix", "rfind", "rindex", "rpartition", "swapcase"),
    *("title", "upper"),
)
# Methods by the kind of value: the budget, the value, then the arguments.
METHODS: Mapping[type, Mapping[str, Word]] = {
    str: {
        **{name: _plain(name) for name in _READ_TEXT},
        **{name: _quick(name) for name in ("endswith", "startswith")},
        **{way: _split(way) for way in ("rsplit", "split")},
        **{way: _stripped(way) for way in ("lstrip", "rstrip", "strip")},
        "splitlines": _split_lines,
        **{way: _padded(way) for way in ("center", "ljust", "rjust", "zfill")},
        "format": formatted,
        "join": _joined_by,
        "replace": _replace,
    },
    list: {
        **{name: _plain(name) for name in ("count", "index", "copy")},
        "append": Budget.append,
        "pop": Budget.pop,
    },
    tuple: {name: _plain(name) for name in ("count", "index")},
    dict: {**{name: _view(name) for name in ("items", "keys", "values")}, "copy": _plain("copy"), "get": _quick("get")},
    float: {"is_integer": _quick("is_integer")},
}


def method_of(value: object, name: str) -> Word | None:
    """The measured form of a value's method, None where templates may not call it."""
    kinds = (methods for kind, methods in METHODS.items() if isinstance(value, kind))
    return next((methods[name] for methods in kinds if name in methods), None)


# Filters of the template engine's own that are used: what they take first, and how often they look at their value.
BORROWED: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(("map", "reject", "rejectattr", "select", "selectattr"), ("context", 1)),
    **dict.fromkeys(("groupby", "max", "min", "sort", "unique"), ("environment", 20)),
    **dict.fromkeys(("first", "last"), ("environment", 0)),
    **dict.fromkeys(("abs", "count", "d", "default", "length"), ("", 0)),
    **dict.fromkeys(("float", "int", "title"), ("", 1)),
    "dictsort": ("", 20),
}
QUICK_TESTS = (
    *("boolean", "callable", "defined", "divisibleby", "even", "false", "float", "integer", "iterable", "mapping"),
    *("none", "number", "odd", "sameas", "sequence", "string", "true", "undefined"),
)
LOOKING_TESTS = (
    *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan", "lower"),
    *("lt", "ne", "upper"),
)


class Day:
    """What `strftime_now` tells: the day that the caller gave."""

    __slots__ = ("_day",)

    def __init__(self, day: date) -> None:
        self._day = day

    def __call__(self, form: str) -> str:
        # The C library pads to any width that a directive asks for.
        if len(form) > 200 or not _DATE.fullmatch(form):
            raise over("asks for a date in an unusual form")
        return self._day.strftime(form)
