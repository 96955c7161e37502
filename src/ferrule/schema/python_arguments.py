"""Convert validated JSON arguments to the Python values that a function's annotations require: the inverse of `infer`.

The arguments must fit the inferred schema. A value that still does not convert, for example because a model's custom
validator refuses it, raises a `SchemaError` with its path. This module does not call the function.
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
    UnwrappedAnnotation,
    fields_of,
    is_pydantic_model,
    literal_values,
    parameters_of,
    unwrap,
)
from ferrule.schema.pointer import escape


class _MismatchError(ValueError):
    """The value at `path` does not convert."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def arguments_to_python(
    function: Callable[..., object], arguments: Mapping[str, object], injected: frozenset[type] = frozenset()
) -> dict[str, Any]:
    """Keyword arguments for the function. Missing parameters keep their defaults."""
    return arguments_for(annotations_of(function, injected), arguments)


def annotations_of(function: Callable[..., object], injected: frozenset[type] = frozenset()) -> dict[str, Any]:
    """The annotation of each parameter. Compute it once and pass it to `arguments_for` for every call."""
    return {parameter.name: parameter.annotation for parameter in parameters_of(function, injected)}


def arguments_for(annotations: Mapping[str, Any], arguments: Mapping[str, object]) -> dict[str, Any]:
    """Convert the arguments to the annotated types."""
    try:
        _refuse_unknown(arguments, annotations, "")
        return {name: _convert(annotations[name], value, f"/{name}") for name, value in arguments.items()}
    except _MismatchError as error:
        raise SchemaError(
            str(error),
            code="argument_mismatch",
            path=error.path,
            hint="Check the arguments against the function's schema before you convert them.",
        ) from None


def value_for(annotation: Any, value: object) -> Any:
    """Convert one JSON value to the annotated type."""
    try:
        return _convert(annotation, value, "")
    except _MismatchError as error:
        raise SchemaError(str(error), code="argument_mismatch", path=error.path) from None


def _refuse_unknown(values: Mapping[str, object], annotations: Mapping[str, Any], path: str) -> None:
    for name in values:
        if name not in annotations:
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
        return _convert_union(unwrapped, value, path)
    if is_pydantic_model(origin):
        return _construct(origin.model_validate, value, path)
    if fields_of(origin) is not None:
        return _build_object(origin, value, path)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _member(tuple(origin), value, path)
    if bare in _SCALARS:
        return _scalar(bare, value, path)
    return _build_collection(origin, unwrapped, value, path)


def _scalar(kind: Any, value: Any, path: str) -> Any:
    accepted, make = _SCALARS[kind]
    if type(value) not in accepted:
        raise _MismatchError(f"{value!r:.40} is not for {getattr(kind, '__name__', kind)}", path)
    return _construct(make, value, path)


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


def _construct(make: Callable[[Any], Any], value: Any, path: str) -> Any:
    try:
        return make(value)
    except (ValueError, OverflowError) as error:
        raise _MismatchError(f"{error!s:.200}", path) from None


def _member(members: tuple[Any, ...], value: Any, path: str) -> Any:
    """The member whose JSON value is `value`. As in JSON, 1 and 1.0 are equal and true differs from both."""
    for member in members:
        json_value = member.value if isinstance(member, enum.Enum) else member
        if json_value == value and isinstance(json_value, bool) == isinstance(value, bool):
            return member
    raise _MismatchError(f"{value!r:.40} is none of the allowed values", path)


def _convert_union(unwrapped: UnwrappedAnnotation, value: Any, path: str) -> Any:
    errors: list[_MismatchError] = []
    for member in unwrapped.arguments:
        try:
            return _convert(member, value, path)
        except _MismatchError as error:
            errors.append(error)
    # The error with the longest path is the most informative: that option matched furthest.
    raise max(errors, key=lambda error: len(error.path))


def _build_object(cls: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _MismatchError(f"{value!r:.40} is not an object", path)
    members = cast("dict[str, Any]", value)
    fields = {field.name: field for field in fields_of(cls) or ()}
    _refuse_unknown(members, fields, path)
    for name, field in fields.items():
        if field.is_required and name not in members:
            raise _MismatchError(f"{name!r} is missing", path)
    parts = {
        name: _convert(fields[name].annotation, inner, f"{path}/{escape(name)}") for name, inner in members.items()
    }

    def make(named: dict[str, Any]) -> Any:
        return cls(**named)

    return _construct(make, parts, path)


def _build_collection(origin: Any, unwrapped: UnwrappedAnnotation, value: Any, path: str) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        keys, values = unwrapped.arguments or (str, Any)
        return {
            _convert(keys, name, path): _convert(values, inner, f"{path}/{escape(name)}")
            for name, inner in members.items()
        }
    if not isinstance(value, list) or (isinstance(origin, type) and issubclass(origin, collections.abc.Mapping)):
        raise _MismatchError(f"{value!r:.40} is not for {unwrapped.bare}", path)
    entries = cast("list[Any]", value)
    kinds = _entry_annotations(unwrapped, len(entries), path)
    items = [
        _convert(kind, entry, f"{path}/{index}") for index, (kind, entry) in enumerate(zip(kinds, entries, strict=True))
    ]
    return _COLLECTIONS.get(origin, list)(items)


def _entry_annotations(unwrapped: UnwrappedAnnotation, count: int, path: str) -> tuple[Any, ...]:
    arguments = unwrapped.arguments
    if not arguments:
        return (Any,) * count
    if get_origin(unwrapped.bare) is not tuple or arguments[-1] is Ellipsis:
        return (arguments[0],) * count
    if len(arguments) != count:
        raise _MismatchError(f"must have {len(arguments)} items, has {count}", path)
    return arguments
