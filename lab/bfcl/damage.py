"""Ways to spoil a value or a list of calls: each changes one thing, and says by `NOT_FOR_IT` where there is none."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

NOT_FOR_IT: Final = object()
_MARKS: Final = " ,./-_*^"
Spoil = Callable[[Any], Any]


def _of(kind: type, change: Spoil) -> Spoil:
    """The change for values of exactly that type: a bool is no int here."""
    return lambda value: change(value) if type(value) is kind else NOT_FOR_IT


def _with_first_string(change: Spoil) -> Spoil:
    """The change for the first string that stands directly in a list or an object."""

    def changed(value: Any) -> Any:
        pairs = list(_pairs(value))
        at = next((at for at, held in pairs if isinstance(held, str)), None)
        return NOT_FOR_IT if at is None else _put(value, at, change(dict(pairs)[at]))

    return changed


def _deeper(change: Spoil) -> Spoil:
    """The change for what stands first in a list or an object, where the change has something to do there."""

    def changed(value: Any) -> Any:
        for at, held in _pairs(value):
            spoiled = change(held)
            if spoiled is not NOT_FOR_IT:
                return _put(value, at, spoiled)
        return NOT_FOR_IT

    return changed


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).items())
    return list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []


def _put(value: Any, at: Any, held: Any) -> Any:
    copy = value.copy()
    copy[at] = held
    return copy


def _full(kind: type, change: Spoil) -> Spoil:
    return lambda value: change(value) if type(value) is kind and value else NOT_FOR_IT


_add_mark: Final[Spoil] = _full(str, lambda text: text[:1] + _MARKS + text[1:])
_add_key: Final[Spoil] = _of(dict, lambda held: {**held, "nobody_knows": 1})
_drop_key: Final[Spoil] = _full(dict, lambda held: dict(list(held.items())[1:]))
_wrong: Final[Mapping[str, Spoil]] = {
    "another string": _of(str, lambda text: f"{text}x"),
    "another int": _of(int, lambda number: number + 1),
    "another float": _of(float, lambda number: number + 0.5),
    "the other bool": _of(bool, lambda truth: not truth),
}

VALUES: Final[Mapping[str, Spoil]] = {
    **_wrong,
    **{f"{how} inside": _deeper(change) for how, change in _wrong.items()},
    # No answer has a bool that deep.
    **{
        f"{how} further inside": _deeper(_deeper(_wrong[how]))
        for how in ("another string", "another int", "another float")
    },
    "upper case": _full(str, str.upper),
    "upper case inside": _with_first_string(str.upper),
    "upper case further inside": _deeper(_with_first_string(str.upper)),
    "marks inside a string": _add_mark,
    "marks inside, in a list or object": _deeper(_add_mark),
    "other quotes": _of(str, lambda text: text.translate(str.maketrans("'\"", "\"'"))),
    "quoted": _of(str, lambda text: f"'{text}'"),
    "a mark that counts": _of(str, lambda text: f"{text}!"),
    "only marks": _of(str, lambda text: " - "),
    "an empty string": lambda value: "",
    "null": lambda value: None,
    "a float for an int": _of(int, float),
    "an int for a float": _of(float, int),
    "a very large int for a number": lambda value: 10**400 if type(value) in (int, float) else NOT_FOR_IT,
    "a float for an int inside": _deeper(_of(int, float)),
    "an int for a float inside": _deeper(_of(float, int)),
    "an int for a bool": _of(bool, int),
    "an int for a bool inside": _deeper(_of(bool, int)),
    "a bool for an int": _of(int, bool),
    "an int for a string": _of(str, len),
    "an int for a string inside": _deeper(_of(str, len)),
    "a string for a bool": _of(bool, str),
    "a string for an int": _of(int, str),
    "a string for a float": _of(float, str),
    "a string for a list": _of(list, str),
    "a string for an object": _of(dict, str),
    "in a list": lambda value: [value],
    "in an object": lambda value: {"value": value},
    "objects inside a list": _of(list, lambda items: [{"value": item} for item in items]),
    "the first of a list": _full(list, lambda items: items[0]),
    "a list the other way round": _of(list, lambda items: items[::-1]),
    "a list twice": _of(list, lambda items: items + items),
    "one less in a list": _full(list, lambda items: items[1:]),
    "an empty list": lambda value: [],
    "an empty object": lambda value: {},
    "null in a list": _of(list, lambda items: [*items, None]),
    "a key too many": _add_key,
    "a key too many inside": _deeper(_add_key),
    "a key less": _drop_key,
    "a key less inside": _deeper(_drop_key),
    "keys the other way round": _of(dict, lambda held: dict(reversed(list(held.items())))),
    "an object in a list for an object": _of(dict, lambda held: [held]),
}

Calls = list[tuple[str, dict[str, Any]]]
LISTS: Final[Mapping[str, Callable[[Calls], Calls]]] = {
    "calls the other way round": lambda calls: calls[::-1],
    "the first call again": lambda calls: [*calls, *calls[:1]],
    "the last call instead of the first": lambda calls: [*calls[-1:], *calls[1:]],
    "a call less": lambda calls: calls[1:],
    "no call": lambda calls: [],
    "arguments of the first for all": lambda calls: [(name, calls[0][1]) for name, _ in calls],
}
