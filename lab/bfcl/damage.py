"""Changes to a value or to a list of calls, one thing at a time. `NOT_APPLICABLE`: the change does not apply."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

NOT_APPLICABLE: Final = object()
_IGNORED_CHARACTERS: Final = " ,./-_*^"
Change = Callable[[Any], Any]


def _for_type(kind: type, change: Change) -> Change:
    """Apply the change only to values of exactly that type: a bool does not count as an int."""
    return lambda value: change(value) if type(value) is kind else NOT_APPLICABLE


def _with_first_string(change: Change) -> Change:
    """Apply the change to the first string directly inside a list or an object."""

    def apply(value: Any) -> Any:
        pairs = list(_pairs(value))
        at = next((at for at, item in pairs if isinstance(item, str)), None)
        return NOT_APPLICABLE if at is None else _replace_at(value, at, change(dict(pairs)[at]))

    return apply


def _first_inside(change: Change) -> Change:
    """Apply the change to the first item of a list or an object that it applies to."""

    def apply(value: Any) -> Any:
        for at, item in _pairs(value):
            changed = change(item)
            if changed is not NOT_APPLICABLE:
                return _replace_at(value, at, changed)
        return NOT_APPLICABLE

    return apply


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).items())
    return list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []


def _replace_at(value: Any, at: Any, item: Any) -> Any:
    copy = value.copy()
    copy[at] = item
    return copy


def _for_nonempty(kind: type, change: Change) -> Change:
    return lambda value: change(value) if type(value) is kind and value else NOT_APPLICABLE


_add_ignored_characters: Final[Change] = _for_nonempty(str, lambda text: text[:1] + _IGNORED_CHARACTERS + text[1:])
_add_key: Final[Change] = _for_type(dict, lambda value: {**value, "nobody_knows": 1})
_drop_key: Final[Change] = _for_nonempty(dict, lambda value: dict(list(value.items())[1:]))
_wrong: Final[Mapping[str, Change]] = {
    "another string": _for_type(str, lambda text: f"{text}x"),
    "another int": _for_type(int, lambda number: number + 1),
    "another float": _for_type(float, lambda number: number + 0.5),
    "the other bool": _for_type(bool, lambda truth: not truth),
}

VALUE_CHANGES: Final[Mapping[str, Change]] = {
    **_wrong,
    **{f"{how} inside": _first_inside(change) for how, change in _wrong.items()},
    # No answer has a bool that deep.
    **{
        f"{how} further inside": _first_inside(_first_inside(_wrong[how]))
        for how in ("another string", "another int", "another float")
    },
    "upper case": _for_nonempty(str, str.upper),
    "upper case inside": _with_first_string(str.upper),
    "upper case further inside": _first_inside(_with_first_string(str.upper)),
    "ignored characters inside a string": _add_ignored_characters,
    "ignored characters inside, in a list or object": _first_inside(_add_ignored_characters),
    "other quotes": _for_type(str, lambda text: text.translate(str.maketrans("'\"", "\"'"))),
    "quoted": _for_type(str, lambda text: f"'{text}'"),
    "a character that counts": _for_type(str, lambda text: f"{text}!"),
    "only ignored characters": _for_type(str, lambda text: " - "),
    "an empty string": lambda value: "",
    "null": lambda value: None,
    "a float for an int": _for_type(int, float),
    "an int for a float": _for_type(float, int),
    "a very large int for a number": lambda value: 10**400 if type(value) in (int, float) else NOT_APPLICABLE,
    "a float for an int inside": _first_inside(_for_type(int, float)),
    "an int for a float inside": _first_inside(_for_type(float, int)),
    "an int for a bool": _for_type(bool, int),
    "an int for a bool inside": _first_inside(_for_type(bool, int)),
    "a bool for an int": _for_type(int, bool),
    "an int for a string": _for_type(str, len),
    "an int for a string inside": _first_inside(_for_type(str, len)),
    "a string for a bool": _for_type(bool, str),
    "a string for an int": _for_type(int, str),
    "a string for a float": _for_type(float, str),
    "a string for a list": _for_type(list, str),
    "a string for an object": _for_type(dict, str),
    "in a list": lambda value: [value],
    "in an object": lambda value: {"value": value},
    "objects inside a list": _for_type(list, lambda items: [{"value": item} for item in items]),
    "the first of a list": _for_nonempty(list, lambda items: items[0]),
    "a list the other way round": _for_type(list, lambda items: items[::-1]),
    "a list twice": _for_type(list, lambda items: items + items),
    "one less in a list": _for_nonempty(list, lambda items: items[1:]),
    "an empty list": lambda value: [],
    "an empty object": lambda value: {},
    "null in a list": _for_type(list, lambda items: [*items, None]),
    "a key too many": _add_key,
    "a key too many inside": _first_inside(_add_key),
    "a key less": _drop_key,
    "a key less inside": _first_inside(_drop_key),
    "keys the other way round": _for_type(dict, lambda value: dict(reversed(list(value.items())))),
    "an object in a list for an object": _for_type(dict, lambda value: [value]),
}

Calls = list[tuple[str, dict[str, Any]]]
CALL_LIST_CHANGES: Final[Mapping[str, Callable[[Calls], Calls]]] = {
    "calls the other way round": lambda calls: calls[::-1],
    "the first call again": lambda calls: [*calls, *calls[:1]],
    "the last call instead of the first": lambda calls: [*calls[-1:], *calls[1:]],
    "a call less": lambda calls: calls[1:],
    "no call": lambda calls: [],
    "arguments of the first for all": lambda calls: [(name, calls[0][1]) for name, _ in calls],
}
