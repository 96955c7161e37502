"""Validated JSON arguments as the Python values that a function's annotations ask for. The way back from `infer`.

Expects arguments that fit the inferred schema; what then still does not convert (a custom validator of a model says no)
is a `SchemaError` that names the place. Must not call the function or know where the arguments came from.
"""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import enum
import pathlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Union, cast, get_origin

from ferrule.errors import SchemaError
from ferrule.schema.annotations import (
    Unwrapped,
    fields_of,
    is_pydantic_model,
    literal_values,
    parameters_of,
    unwrap,
)
from ferrule.schema.pointer import escape


class _MismatchError(ValueError):
    """The value does not convert; `path` is where."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def arguments_to_python(
    function: Callable[..., object], arguments: Mapping[str, object], injected: frozenset[type] = frozenset()
) -> dict[str, Any]:
    """Keyword arguments for the function. Parameters that are left out keep their defaults."""
    return arguments_for(annotations_of(function, injected), arguments)


def annotations_of(function: Callable[..., object], injected: frozenset[type] = frozenset()) -> dict[str, Any]:
    """Each parameter's annotation: what `arguments_for` needs of a function that is called more than once."""
    return {parameter.name: parameter.annotation for parameter in parameters_of(function, injected)}


def arguments_for(annotations: Mapping[str, Any], arguments: Mapping[str, object]) -> dict[str, Any]:
    """The arguments as the annotations ask for them."""
    try:
        _refuse_unknown(arguments, annotations, "")
        return {name: _convert(annotations[name], value, f"/{name}") for name, value in arguments.items()}
    except _MismatchError as error:
        raise SchemaError(
            str(error),
            code="argument_mismatch",
            path=error.path,
            hint="Check the arguments against the function's schema before they are converted.",
        ) from None


def _refuse_unknown(values: Mapping[str, object], known: Mapping[str, Any], path: str) -> None:
    for name in values:
        if name not in known:
            raise _MismatchError(f"unknown name {name!r}", path)


def _convert(annotation: Any, value: Any, path: str) -> Any:
    if type(annotation) is type and annotation in _SCALARS:
        return _scalar(annotation, value, path)
    unwrapped = unwrap(annotation)
    bare, origin = unwrapped.bare, unwrapped.origin
    values = literal_values(unwrapped)
    if bare is Any or bare is object:
        return value
    if values is not None:
        return _member(values, value, path)
    if origin is Union:
        return _first_fitting(unwrapped, value, path)
    if is_pydantic_model(origin):
        return _parsed(origin.model_validate, value, path)
    if fields_of(origin) is not None:
        return _built(origin, value, path)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _member(tuple(origin), value, path)
    if bare in _SCALARS:
        return _scalar(bare, value, path)
    return _collected(origin, unwrapped, value, path)


def _scalar(kind: Any, value: Any, path: str) -> Any:
    accepted, make = _SCALARS[kind]
    if type(value) not in accepted:
        raise _MismatchError(f"{value!r:.40} is not for {getattr(kind, '__name__', kind)}", path)
    return _parsed(make, value, path)


def _whole(value: float) -> int:
    if value != int(value):
        raise ValueError(f"{value} has a fraction")
    return int(value)


def _same(value: Any) -> Any:
    return value


def _decimal(value: float) -> decimal.Decimal:
    return decimal.Decimal(str(value))


_SCALARS: dict[Any, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
    None: ((type(None),), _same),
    type(None): ((type(None),), _same),
    str: ((str,), _same),
    bool: ((bool,), _same),
    int: ((int, float), _whole),
    float: ((int, float), float),
    decimal.Decimal: ((int, float), _decimal),
    datetime.datetime: ((str,), datetime.datetime.fromisoformat),
    datetime.date: ((str,), datetime.date.fromisoformat),
    datetime.time: ((str,), datetime.time.fromisoformat),
    uuid.UUID: ((str,), uuid.UUID),
    pathlib.Path: ((str,), pathlib.Path),
    pathlib.PurePath: ((str,), pathlib.PurePath),
}
_COLLECTIONS: dict[Any, Callable[..., Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    tuple: tuple,
    collections.abc.Set: frozenset,
}


def _parsed(make: Callable[[Any], Any], value: Any, path: str) -> Any:
    try:
        return make(value)
    except (ValueError, OverflowError) as error:
        raise _MismatchError(f"{error!s:.200}", path) from None


def _member(members: tuple[Any, ...], value: Any, path: str) -> Any:
    """The member that is written as the value; 1, 1.0 and true are told apart as JSON tells them apart."""
    for member in members:
        written = member.value if isinstance(member, enum.Enum) else member
        if written == value and isinstance(written, bool) == isinstance(value, bool):
            return member
    raise _MismatchError(f"{value!r:.40} is none of the allowed values", path)


def _first_fitting(unwrapped: Unwrapped, value: Any, path: str) -> Any:
    problems: list[_MismatchError] = []
    for member in unwrapped.arguments:
        try:
            return _convert(member, value, path)
        except _MismatchError as error:
            problems.append(error)
    # The one that got furthest into the value says most about what was meant.
    raise max(problems, key=lambda error: len(error.path))


def _built(cls: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _MismatchError(f"{value!r:.40} is not an object", path)
    held = cast("dict[str, Any]", value)
    fields = {field.name: field for field in fields_of(cls) or ()}
    _refuse_unknown(held, fields, path)
    for name, field in fields.items():
        if field.is_required and name not in held:
            raise _MismatchError(f"{name!r} is missing", path)
    parts = {name: _convert(fields[name].annotation, inner, f"{path}/{escape(name)}") for name, inner in held.items()}

    def make(named: dict[str, Any]) -> Any:
        return cls(**named)

    return _parsed(make, parts, path)


def _collected(origin: Any, unwrapped: Unwrapped, value: Any, path: str) -> Any:
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        keys, values = unwrapped.arguments or (str, Any)
        return {
            _convert(keys, name, path): _convert(values, inner, f"{path}/{escape(name)}")
            for name, inner in held.items()
        }
    if not isinstance(value, list) or (isinstance(origin, type) and issubclass(origin, collections.abc.Mapping)):
        raise _MismatchError(f"{value!r:.40} is not for {unwrapped.bare}", path)
    entries = cast("list[Any]", value)
    kinds = _entry_annotations(unwrapped, len(entries), path)
    items = [
        _convert(kind, entry, f"{path}/{index}") for index, (kind, entry) in enumerate(zip(kinds, entries, strict=True))
    ]
    return _COLLECTIONS.get(origin, list)(items)


def _entry_annotations(unwrapped: Unwrapped, count: int, path: str) -> tuple[Any, ...]:
    arguments = unwrapped.arguments
    if not arguments:
        return (Any,) * count
    if get_origin(unwrapped.bare) is not tuple or arguments[-1] is Ellipsis:
        return (arguments[0],) * count
    if len(arguments) != count:
        raise _MismatchError(f"must have {len(arguments)} items, has {count}", path)
    return arguments
