"""The filters, methods and operators that a chat template may use. Each counts its cost before it creates anything.

This is an allow list: what is not in these tables cannot be used. Independent of Jinja.
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
from ferrule.wire.template.budget import MAX_BITS, Budget, limit_error
from ferrule.wire.template.tool_object import ToolObject

TemplateFunction = Callable[..., Any]

_MAX_STYLES = 2
_MAX_WIDTH = 999
_MAX_STRIP_CHARS = 100
_ITEM = 8
_DATE = re.compile(r"(?:[^%]|%-?[A-Za-z%])*")
_WIDE = re.compile(r"%[^a-zA-Z%]*\d")
_DIRECTIVE = re.compile(r"%(?:\([^()]*\))?[-+ #0]*(\d{0,3})(?:\.\d{0,3})?[a-zA-Z%]")


def concatenate(budget: Budget, *values: Any) -> str:
    """Concatenate values as text: Jinja's `~`."""
    budget.fit(sum(map(budget.size, values)))
    return "".join(map(str, values))


def slice_value(budget: Budget, value: Any, start: Any, stop: Any, step: Any) -> Any:
    budget.handle(budget.length(value))
    return value[slice(start, stop, step)]


def apply_operator(budget: Budget, operator: str, left: Any, right: Any) -> Any:
    budget.step()
    return budget.admit_value(_OPERATORS[operator](budget, left, right))


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
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MAX_BITS:
        raise limit_error("creates a number too large to print")
    return left**right


def _modulo(budget: Budget, left: Any, right: Any) -> Any:
    return _percent(budget, left, right) if isinstance(left, str) else left % right


def _percent(budget: Budget, text: str, values: Any) -> str:
    """The `%` operator of strings, with small literal widths only."""
    if "%" in _DIRECTIVE.sub("", text):
        raise limit_error(f"asks for a field wider than {_MAX_WIDTH}, or in an unusual form")
    budget.fit(len(text) + text.count("%") * budget.size(values) + _MAX_WIDTH * len(_WIDE.findall(text)))
    return text % values


_OPERATORS: Mapping[str, TemplateFunction] = {"+": _add, "*": _multiply, "**": _power, "%": _modulo}


def format_text(budget: Budget, text: str, *values: Any, **kwargs: Any) -> str:
    """`str.format` with plain fields only: a width could create a gigabyte, an attribute could leave the sandbox."""
    fields = [field for field in Formatter().parse(text) if field[1] is not None]
    if any(spec or conversion or not re.fullmatch(r"\w*", name or "") for _, name, spec, conversion in fields):
        raise TemplateError(
            "the template uses format() with more than plain fields", hint="Allowed are {}, {0} and {name}."
        )
    most = max(map(budget.size, (*values, *kwargs.values())), default=0)
    budget.fit(len(text) + len(fields) * most)
    return text.format(*values, **kwargs)


def to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: `<` and non-ASCII characters are not escaped."""
    if len(str(indent)) > 16 or (isinstance(indent, int) and indent > 16) or sum(map(len, separators or ())) > 16:
        raise limit_error("asks for an indent or a separator of more than 16")
    budget.fit(budget.size(value))
    if not isinstance(value, ToolObject):
        return _write_json(budget, value, ensure_ascii, indent, separators, sort_keys)
    style = (bool(ensure_ascii), repr(indent), repr(separators), bool(sort_keys))
    text = value.kept_json.get(style)
    if text is None:
        text = _write_json(budget, value, ensure_ascii, indent, separators, sort_keys)
        # Templates have one style or two; a hostile one could have any number.
        if len(value.kept_json) < _MAX_STYLES:
            value.kept_json[style] = text
    return text


def _write_json(budget: Budget, value: Any, ensure_ascii: bool, indent: Any, separators: Any, sort_keys: bool) -> str:
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=tuple(separators) if separators else None,
        sort_keys=sort_keys,
    )
    if indent is None:
        return encoder.encode(value)
    # Deeply nested values are mostly indentation, so the output is counted while it is produced.
    pieces: list[str] = []
    size = 0
    for piece in encoder.iterencode(value):
        size += len(piece)
        if size > budget.limits.value:
            raise limit_error(f"writes JSON of more than {budget.limits.value} characters")
        pieces.append(piece)
    return "".join(pieces)


def _to_list(budget: Budget, values: Iterable[Any]) -> list[Any]:
    """A new list of the iterated values. Nothing that a template can iterate over is infinite."""
    items: list[Any] = []
    for value in values:
        budget.handle(_ITEM)
        items.append(value)
        if len(items) * _ITEM > budget.limits.value:
            raise limit_error(f"creates a list of more than {len(items)} items")
    return items


def _join(budget: Budget, values: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
    items = _to_list(budget, values)
    if attribute is not None:
        items = [item[attribute] for item in items]
    budget.fit(sum(map(budget.size, items)) + len(items) * budget.size(d))
    return str(d).join(map(str, items))


def _replace(budget: Budget, text: Any, old: str, new: str, count: int | None = None) -> str:
    text = _text(budget, text)
    occurrences = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    budget.fit(len(text) + occurrences * len(new))
    return text.replace(old, new, occurrences)


def _indent(budget: Budget, text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    lead = width if isinstance(width, str) else " " * min(width, _MAX_WIDTH)
    budget.fit(len(text) + (_line_breaks(text) + 1) * (len(lead) + _ITEM))
    # The added newline makes an empty text one empty line.
    head, *others = (text + "\n").splitlines()
    shifted = [lead + line if line or blank else line for line in others]
    return (lead if first else "") + "\n".join((head, *shifted))


def _line_breaks(text: str) -> int:
    return sum(map(text.count, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))


def _pad_function(way: str) -> TemplateFunction:
    def pad(budget: Budget, text: Any, width: int = 80, *fill: str) -> str:
        text = _text(budget, text)
        budget.fit(max(len(text), width))
        return getattr(text, way)(width, *fill)

    return pad


def _text(budget: Budget, value: Any) -> str:
    budget.fit(budget.size(value))
    return value if isinstance(value, str) else str(value)


def _text_function(change: Callable[[str], Any]) -> TemplateFunction:
    def call(budget: Budget, value: Any) -> Any:
        return change(_text(budget, value))

    return call


def _strip_function(way: str) -> TemplateFunction:
    def strip(budget: Budget, value: Any, chars: str | None = None) -> str:
        # Each character is compared with all of these.
        if chars is not None and len(chars) > _MAX_STRIP_CHARS:
            raise limit_error(f"strips more than {_MAX_STRIP_CHARS} different characters")
        return getattr(_text(budget, value), way)(chars)

    return strip


def _reverse(budget: Budget, value: Any) -> Any:
    return _text(budget, value)[::-1] if isinstance(value, str) else _to_list(budget, value)[::-1]


def _items(budget: Budget, value: Any) -> list[Any]:
    return _to_list(budget, cast("Mapping[Any, Any]", value).items()) if isinstance(value, Mapping) else []


def _round(budget: Budget, value: Any, precision: int = 0) -> Any:
    if abs(precision) > _ITEM * 4:
        raise limit_error("asks for too many digits")
    return round(value, precision)


def _from_json(budget: Budget, value: Any) -> Any:
    text = _text(budget, value)
    # An empty list takes fifty bytes of memory for two characters of text.
    budget.fit(_ITEM * len(text))
    return loads(text)


def _format_percent(budget: Budget, text: str, *values: Any, **kwargs: Any) -> str:
    return _percent(budget, text, kwargs or values)


# Filters by name. Arguments: the budget, the value, then the filter's own arguments.
FILTERS: Mapping[str, TemplateFunction] = {
    "capitalize": _text_function(str.capitalize),
    "center": _pad_function("center"),
    "e": _text_function(escape),
    "escape": _text_function(escape),
    "format": _format_percent,
    "from_json": _from_json,
    "indent": _indent,
    "items": _items,
    "join": _join,
    "list": _to_list,
    "lower": _text_function(str.lower),
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "safe": _text,
    "string": _text,
    "tojson": to_json,
    "trim": _strip_function("strip"),
    "upper": _text_function(str.upper),
}


def _scanning_method(name: str) -> TemplateFunction:
    """A method that reads its whole value and returns nothing larger."""

    def call(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget.handle(budget.size(value) + sum(map(budget.size, args)))
        return getattr(value, name)(*args, **kwargs)

    return call


def _quick_method(name: str) -> TemplateFunction:
    """A method that reads its arguments and only as much of its value."""

    def call(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget.handle(sum(map(budget.size, args)))
        return getattr(value, name)(*args, **kwargs)

    return call


def _view_method(name: str) -> TemplateFunction:
    """A method that returns a list instead of a dict view, which could not be measured."""

    def view(budget: Budget, value: Any) -> list[Any]:
        return _to_list(budget, getattr(value, name)())

    return view


def _join_with(budget: Budget, text: str, values: Iterable[Any]) -> str:
    return _join(budget, values, text)


def _split_function(way: str) -> TemplateFunction:
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
# Methods by type of value. Arguments: the budget, the value, then the method's own arguments.
METHODS: Mapping[type, Mapping[str, TemplateFunction]] = {
    str: {
        **{name: _scanning_method(name) for name in _READ_TEXT},
        **{name: _quick_method(name) for name in ("endswith", "startswith")},
        **{way: _split_function(way) for way in ("rsplit", "split")},
        **{way: _strip_function(way) for way in ("lstrip", "rstrip", "strip")},
        "splitlines": _split_lines,
        **{way: _pad_function(way) for way in ("center", "ljust", "rjust", "zfill")},
        "format": format_text,
        "join": _join_with,
        "replace": _replace,
    },
    list: {
        **{name: _scanning_method(name) for name in ("count", "index", "copy")},
        "append": Budget.append,
        "pop": Budget.pop,
    },
    tuple: {name: _scanning_method(name) for name in ("count", "index")},
    dict: {
        **{name: _view_method(name) for name in ("items", "keys", "values")},
        "copy": _scanning_method("copy"),
        "get": _quick_method("get"),
    },
    float: {"is_integer": _quick_method("is_integer")},
}


def method_of(value: object, name: str) -> TemplateFunction | None:
    """The counted version of a value's method; None if templates may not call it."""
    kinds = (methods for kind, methods in METHODS.items() if isinstance(value, kind))
    return next((methods[name] for methods in kinds if name in methods), None)


# Jinja's own filters that are allowed: their first argument, and how many times they read their value.
JINJA_FILTERS: Mapping[str, tuple[str, int]] = {
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
SCANNING_TESTS = (
    *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan", "lower"),
    *("lt", "ne", "upper"),
)


class Day:
    """The function `strftime_now`: formats the date that the caller passed."""

    __slots__ = ("_day",)

    def __init__(self, day: date) -> None:
        self._day = day

    def __call__(self, form: str) -> str:
        # The C library pads to any width that a directive requests.
        if len(form) > 200 or not _DATE.fullmatch(form):
            raise limit_error("formats a date with an unusual directive")
        return self._day.strftime(form)
