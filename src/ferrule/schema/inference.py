"""A tool's name, description and parameters from a Python function: its hints, defaults and docstring.

Knows Python types and how each is written as JSON Schema 2020-12. Must not know how the function is called; `to_python`
turns arguments back. What has no faithful schema is refused by name, never guessed.
"""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import enum
import pathlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union, cast

from ferrule.core.json_text import dumps, loads
from ferrule.errors import SchemaError
from ferrule.schema.annotations import (
    MISSING,
    Field,
    Unwrapped,
    fields_of,
    is_pydantic_model,
    literal_values,
    parameters_of,
    unwrap,
)
from ferrule.schema.docstring import read_docstring
from ferrule.schema.hoisting import lifted
from ferrule.schema.pointer import ref_to
from ferrule.schema.value_decoder import type_name

_SCALARS: dict[Any, dict[str, object]] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    decimal.Decimal: {"type": "number"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    pathlib.Path: {"type": "string", "format": "path"},
    pathlib.PurePath: {"type": "string", "format": "path"},
}
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_SETS = (set, frozenset, collections.abc.Set)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)

# How the notes that Annotated may hold (pydantic's Field, annotated-types) name their limits.
_NOTE_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a function says about itself as a tool."""

    name: str
    description: str
    parameters: dict[str, Any]


def infer(function: Callable[..., object], injected: frozenset[type] = frozenset()) -> Inferred:
    """The tool that a function is. Parameters of an injected type are left out; the caller supplies them."""
    documented = read_docstring(getattr(function, "__doc__", None))
    found = _Definitions()
    fields = [
        Field(parameter.name, parameter.annotation, parameter.default is MISSING, parameter.default)
        for parameter in parameters_of(function, injected)
    ]
    parameters = _object(fields, documented.parameters, found, "")
    if found.schemas:
        parameters["$defs"] = found.schemas
    return Inferred(_name_of(function), documented.description, parameters)


def _name_of(function: Any) -> str:
    named = getattr(function, "func", function)
    name = str(getattr(named, "__name__", type(named).__name__))
    if not name.isidentifier():
        raise SchemaError(
            f"the function is called {name!r}, which names no tool",
            code="unnamed_function",
            hint="Define it with def and a name.",
        )
    return name


@dataclass(slots=True)
class _Definitions:
    """Classes that contain themselves, by the name that references to them use."""

    schemas: dict[str, object] = field(default_factory=dict[str, object])
    names: dict[object, str] = field(default_factory=dict[object, str])
    open: set[object] = field(default_factory=set[object])

    def name_for(self, cls: Any) -> str:
        if cls not in self.names:
            self.names[cls] = self.free_name(cls.__name__)
        return self.names[cls]

    def free_name(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.schemas or name in self.names.values():
            name, number = f"{wanted}_{number}", number + 1
        return name


def _object(fields: Iterable[Field], texts: Any, found: _Definitions, path: str) -> dict[str, Any]:
    properties: dict[str, object] = {}
    required: list[str] = []
    for part in fields:
        schema = _schema(part.annotation, found, f"{path}/properties/{part.name}")
        if part.name in texts and "description" not in schema:
            schema = {**schema, "description": texts[part.name]}
        if part.is_required:
            required.append(part.name)
        else:
            schema = {**schema, **_default(part.default)}
        properties[part.name] = schema
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def _default(value: object) -> dict[str, object]:
    """The default as JSON; nothing where it has no JSON form that a model could write."""
    if isinstance(value, enum.Enum):
        value = value.value
    try:
        return {"default": loads(dumps(value))}
    except (TypeError, ValueError, RecursionError):
        return {}


def _schema(annotation: Any, found: _Definitions, path: str) -> dict[str, object]:
    unwrapped = unwrap(annotation)
    schema = _bare_schema(unwrapped, found, path)
    for note in unwrapped.notes:
        schema = {**schema, **_noted(note, schema)}
    return schema


def _bare_schema(unwrapped: Unwrapped, found: _Definitions, path: str) -> dict[str, object]:
    bare, origin = unwrapped.bare, unwrapped.origin
    values = literal_values(unwrapped)
    if values is not None:
        return _enumerated(values, path)
    if _is_scalar(bare):
        return dict(_SCALARS[bare])
    if origin is Union:
        return {"anyOf": [_schema(member, found, path) for member in unwrapped.arguments]}
    if origin in _LISTS:
        return {"type": "array", **_items(unwrapped.arguments, found, path)}
    if origin in _SETS:
        return {"type": "array", **_items(unwrapped.arguments, found, path), "uniqueItems": True}
    if origin in _MAPS:
        return _map(unwrapped.arguments, found, path)
    if fields_of(origin) is not None or is_pydantic_model(origin):
        return _class(bare, origin, found, path)
    if bare is tuple:
        return {"type": "array"}
    if origin is tuple:
        return _tuple(unwrapped.arguments, found, path)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _enumerated(tuple(member.value for member in origin), path)
    raise _unsupported(bare, path)


def _is_scalar(bare: Any) -> bool:
    try:
        return bare in _SCALARS
    except TypeError:
        return False


def _items(arguments: tuple[Any, ...], found: _Definitions, path: str) -> dict[str, object]:
    return {"items": _schema(arguments[0], found, f"{path}/items")} if arguments else {}


def _map(arguments: tuple[Any, ...], found: _Definitions, path: str) -> dict[str, object]:
    if not arguments:
        return {"type": "object"}
    keys = _schema(arguments[0], found, f"{path}/propertyNames")
    if keys.get("type") != "string":
        raise _unsupported(arguments[0], f"{path}/propertyNames")
    names = {} if keys == {"type": "string"} else {"propertyNames": keys}
    return {"type": "object", **names, "additionalProperties": _schema(arguments[1], found, f"{path}/*")}


def _tuple(arguments: tuple[Any, ...], found: _Definitions, path: str) -> dict[str, object]:
    if not arguments:
        return {"type": "array", "maxItems": 0}
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", **_items(arguments, found, path)}
    entries = [_schema(entry, found, f"{path}/prefixItems/{index}") for index, entry in enumerate(arguments)]
    return {"type": "array", "prefixItems": entries, "items": False, "minItems": len(entries)}


def _enumerated(values: tuple[object, ...], path: str) -> dict[str, object]:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for value in plain:
        if not isinstance(value, str | int | float | bool | None):
            raise _unsupported(type(value), path)
    names = {type_name(value) for value in plain}
    return {**({"type": names.pop()} if len(names) == 1 else {}), "enum": plain}


def _class(bare: Any, origin: Any, found: _Definitions, path: str) -> dict[str, object]:
    """The schema of a class in place, or a reference where the class contains itself."""
    if bare in found.open or found.names.get(bare) in found.schemas:
        return {"$ref": ref_to(f"/$defs/{found.name_for(bare)}")}
    found.open.add(bare)
    if is_pydantic_model(origin):
        schema = lifted(cast("dict[str, object]", origin.model_json_schema()), found.schemas, found.free_name)
    else:
        documented = read_docstring(_own_docstring(origin))
        schema = _object(fields_of(origin) or (), documented.parameters, found, path)
        schema.update({"description": documented.description} if documented.description else {})
    found.open.discard(bare)
    if bare not in found.names:
        return schema
    found.schemas[found.names[bare]] = schema
    return {"$ref": ref_to(f"/$defs/{found.names[bare]}")}


def _own_docstring(cls: Any) -> str | None:
    """The docstring that somebody wrote: dataclasses and named tuples make one up from the signature."""
    text = cast("str | None", cls.__dict__.get("__doc__"))
    return None if text is None or text.startswith(f"{cls.__name__}(") else text


def _noted(note: Any, schema: dict[str, object]) -> dict[str, object]:
    """The keywords that one note of Annotated stands for; a note that nobody here knows stands for none."""
    if isinstance(note, str):
        return {"description": note}
    found: dict[str, object] = {}
    for inner in cast("list[object]", getattr(note, "metadata", [])):
        found.update(_noted(inner, schema))
    if isinstance(getattr(note, "description", None), str):
        found["description"] = note.description
    for attribute, keyword in _NOTE_KEYWORDS.items():
        value = getattr(note, attribute, None)
        if isinstance(value, int | float | str):
            found[keyword] = value
    for attribute, side in (("min_length", "min"), ("max_length", "max")):
        value = getattr(note, attribute, None)
        if isinstance(value, int):
            found.update({side + unit: value for unit in _units(schema)})
    extra: object = getattr(note, "json_schema_extra", None)
    if isinstance(extra, Mapping):
        found.update(cast("Mapping[str, object]", extra))
    return found


def _units(schema: Mapping[str, object]) -> list[str]:
    """What a length counts: of each type that may come, since a keyword says nothing of the others."""
    options = cast("list[Mapping[str, object]]", schema.get("anyOf", []))
    own = _LENGTHS.get(str(schema.get("type")))
    return [*([own] if own else []), *(unit for option in options for unit in _units(option))]


def _unsupported(annotation: Any, path: str) -> SchemaError:
    shown = getattr(annotation, "__name__", str(annotation))
    is_binary = annotation in (bytes, bytearray, memoryview)
    return SchemaError(
        f"{shown} has no JSON Schema",
        code="unsupported_annotation",
        path=path,
        hint="Take a str that holds base64 and decode it in the function."
        if is_binary
        else "Use str, int, float, bool, list, dict, an Enum, a dataclass, a TypedDict or a pydantic model.",
    )
