"""Decide whether one argument matches a possible answer, by the rules of BFCL's own scorer. No IO.

Some rules are unusual. Scores are only comparable if all of them are followed:

- A possible answer is a list of allowed values. If "" is among them, the argument may be omitted.
- An int counts as a float if a float is expected. Nothing else is converted.
- If the allowed values have a different type than the function's document says, a value of either type is accepted and
  compared exactly.
- Strings are compared without case, spaces and the characters , . / - _ * ^ and with ' as ". The same holds for strings
  directly inside an array or an object, but not deeper. "" is also an allowed string and an allowed empty array.
- Items of an array have the type that the document says, or the type of the first allowed item. An array with ""
  as an allowed value may contain anything.
- In an object, each key has its own list of allowed values.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ferrule.bench.bfcl.miss import Reason

TYPES: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_WITH_ITEMS: Final = frozenset({"array", "tuple"})
_ABSENT: Final = ""
_IGNORED: Final = re.compile(r"[ ,./\-_*^]")


def may_be_absent(allowed: Sequence[Any]) -> bool:
    return _ABSENT in allowed


def fault_of(value: Any, schema: Mapping[str, Any], allowed: Sequence[Any]) -> Reason | None:
    """What is wrong with a value; None if it is correct. `schema` is the argument's part of the document."""
    expected_type = TYPES[schema["type"]]
    inner = TYPES[schema["items"]["type"]] if schema["type"] in _WITH_ITEMS else None
    converted: Any = _as_float(value) if schema["type"] == "float" else value
    usual = _first_type(allowed)
    is_exact = usual is not None and usual is not expected_type
    if type(converted) is expected_type:
        if inner is not None and not _items_are(cast("list[Any]", converted), inner, allowed):
            return Reason.TYPE
    elif type(converted) is usual:
        is_exact = True
    else:
        return Reason.TYPE
    compare = _exactly if is_exact else _comparison(expected_type, inner)
    return None if compare(converted, allowed) else Reason.VALUE


def _as_float(value: Any) -> Any:
    if type(value) is not int:
        return value
    try:
        return float(value)
    except OverflowError:
        return value


def _first_type(allowed: Sequence[Any]) -> type[object] | None:
    return next((cast("type[object]", type(one)) for one in allowed if one != _ABSENT), None)


def _items_are(items: Sequence[Any], inner: type, allowed: Sequence[Any]) -> bool:
    def fit(one: Any) -> bool:
        if not isinstance(one, list):
            return True
        types = (inner, _first_type(cast("list[Any]", one)))
        return all(type(item) in types for item in items)

    return any(map(fit, allowed))


def _comparison(expected_type: type, inner: type | None) -> Callable[[Any, Sequence[Any]], bool]:
    if expected_type is list and inner is dict:
        return _objects
    return _COMPARISONS.get(expected_type, _exactly)


def _exactly(value: Any, allowed: Sequence[Any]) -> bool:
    return value in allowed


def _string(value: str, allowed: Sequence[Any]) -> bool:
    return _standard(value) in [_standard(one) for one in allowed if isinstance(one, str)]


def _array(value: Sequence[Any], allowed: Sequence[Any]) -> bool:
    return _standards(value) in [_standards(one) for one in allowed]


def _object(value: Any, allowed: Sequence[Any]) -> bool:
    return any(_object_fits(value, one) for one in allowed)


def _objects(value: Sequence[Any], allowed: Sequence[Any]) -> bool:
    return any(len(value) == len(one) and all(map(_object_fits, value, one)) for one in allowed)


def _object_fits(value: Any, allowed: Any) -> bool:
    # The items of a list for which "" is allowed are not type checked, so they can be anything.
    if not isinstance(value, dict) or not isinstance(allowed, dict):
        return False
    members, keys = cast("dict[str, Any]", value), cast("dict[str, Sequence[Any]]", allowed)
    if any(key not in members and not may_be_absent(values) for key, values in keys.items()):
        return False
    return all(key in keys and _standard(one) in _standards(keys[key]) for key, one in members.items())


def _standard(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _standards(values: Sequence[Any]) -> list[Any]:
    return [_standard(value) for value in values]


_COMPARISONS: Final[Mapping[type, Callable[[Any, Sequence[Any]], bool]]] = {str: _string, list: _array, dict: _object}
