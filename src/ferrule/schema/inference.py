"""Infer a tool's name, description and parameters from a Python function: its type hints, defaults and docstring.

This module maps Python types to JSON Schema 2020-12. It does not call the function; `python_arguments` converts
arguments back. A type without an exact schema is refused with its name, never guessed.
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
    UnwrappedAnnotation,
    fields_of,
    is_pydantic_model,
    literal_values,
    parameters_of,
    unwrap,
)
from ferrule.schema.docstring import read_docstring
from ferrule.schema.pointer import from_fragment, ref_to, tokens_of
from ferrule.schema.value_decoder import type_name


def hoist(
    schema: dict[str, object], definitions: dict[str, object], free_name: Callable[[str], str]
) -> dict[str, object]:
    """Move the `$defs` of a schema to `definitions`, under names that are free there; returns the rest."""
    own_definitions = cast("dict[str, object]", schema.get("$defs", {}))
    names: dict[str, str] = {}
    for name, inner in own_definitions.items():
        names[name] = name if definitions.get(name) == inner else free_name(name)
        definitions[names[name]] = inner
    renamed = {name: new for name, new in names.items() if name != new}
    for name in own_definitions:
        definitions[names[name]] = _rename_refs(own_definitions[name], renamed)
    rest = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    return cast("dict[str, object]", _rename_refs(rest, renamed))


def _rename_refs(value: object, renamed: dict[str, str]) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {
            name: _new_ref(inner, renamed)
            if name == "$ref" and isinstance(inner, str)
            else _rename_refs(inner, renamed)
            for name, inner in members.items()
        }
    if isinstance(value, list):
        return [_rename_refs(inner, renamed) for inner in cast("list[object]", value)]
    return value


def _new_ref(ref: str, renamed: dict[str, str]) -> str:
    tokens = tokens_of(from_fragment(ref[1:])) if ref.startswith("#/") else ()
    if len(tokens) == 2 and tokens[0] == "$defs" and tokens[1] in renamed:
        return ref_to(f"/$defs/{renamed[tokens[1]]}")
    return ref


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

# Attributes of Annotated metadata (pydantic's Field, annotated-types), and the keywords that they map to.
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
class InferredTool:
    """The tool definition that is inferred from a function."""

    name: str
    description: str
    parameters: dict[str, Any]


def infer(function: Callable[..., object], injected: frozenset[type] = frozenset()) -> InferredTool:
    """Infer a tool from a function. Parameters of an injected type are left out; the runtime supplies them."""
    docstring = read_docstring(getattr(function, "__doc__", None))
    definitions = _Definitions()
    fields = [
        Field(parameter.name, parameter.annotation, parameter.default is MISSING, parameter.default)
        for parameter in parameters_of(function, injected)
    ]
    parameters = _object(fields, docstring.parameters, definitions, "")
    if definitions.schemas:
        parameters["$defs"] = definitions.schemas
    return InferredTool(_name_of(function), docstring.description, parameters)


def infer_type(annotation: Any) -> dict[str, Any]:
    """Infer the JSON Schema of a type: a class, or any other annotation that a parameter may have."""
    definitions = _Definitions()
    schema = _schema(annotation, definitions, "")
    return {**schema, **({"$defs": definitions.schemas} if definitions.schemas else {})}


def _name_of(function: Any) -> str:
    named = getattr(function, "func", function)
    name = str(getattr(named, "__name__", type(named).__name__))
    if not name.isidentifier():
        raise SchemaError(
            f"{name!r} cannot be a tool name",
            code="unnamed_function",
            hint="Define the function with def and a name.",
        )
    return name


@dataclass(slots=True)
class _Definitions:
    """The definitions of classes that contain themselves, by the name that references use."""

    schemas: dict[str, object] = field(default_factory=dict[str, object])
    names: dict[object, str] = field(default_factory=dict[object, str])
    unfinished: set[object] = field(default_factory=set[object])

    def name_for(self, cls: Any) -> str:
        if cls not in self.names:
            self.names[cls] = self.free_name(cls.__name__)
        return self.names[cls]

    def free_name(self, preferred: str) -> str:
        name, number = preferred, 2
        while name in self.schemas or name in self.names.values():
            name, number = f"{preferred}_{number}", number + 1
        return name


def _object(fields: Iterable[Field], texts: Any, definitions: _Definitions, path: str) -> dict[str, Any]:
    properties: dict[str, object] = {}
    required: list[str] = []
    for part in fields:
        schema = _schema(part.annotation, definitions, f"{path}/properties/{part.name}")
        if part.name in texts and "description" not in schema:
            schema = {**schema, "description": texts[part.name]}
        if part.is_required:
            required.append(part.name)
        else:
            schema = {**schema, **_default(part.default)}
        properties[part.name] = schema
    required_keyword = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **required_keyword, "additionalProperties": False}


def _default(value: object) -> dict[str, object]:
    """The `default` keyword for a value; empty if the value cannot be written as JSON."""
    if isinstance(value, enum.Enum):
        value = value.value
    try:
        return {"default": loads(dumps(value))}
    except (TypeError, ValueError, RecursionError):
        return {}


def _schema(annotation: Any, definitions: _Definitions, path: str) -> dict[str, object]:
    unwrapped = unwrap(annotation)
    schema = _bare_schema(unwrapped, definitions, path)
    for note in unwrapped.notes:
        schema = {**schema, **_note_keywords(note, schema)}
    return schema


def _bare_schema(unwrapped: UnwrappedAnnotation, definitions: _Definitions, path: str) -> dict[str, object]:
    bare, origin = unwrapped.bare, unwrapped.origin
    values = literal_values(unwrapped)
    if values is not None:
        return _enum_schema(values, path)
    if _is_scalar(bare):
        return dict(_SCALARS[bare])
    if origin is Union:
        return {"anyOf": [_schema(member, definitions, path) for member in unwrapped.arguments]}
    if origin in _LISTS:
        return {"type": "array", **_items(unwrapped.arguments, definitions, path)}
    if origin in _SETS:
        return {"type": "array", **_items(unwrapped.arguments, definitions, path), "uniqueItems": True}
    if origin in _MAPS:
        return _map(unwrapped.arguments, definitions, path)
    if fields_of(origin) is not None or is_pydantic_model(origin):
        return _class(bare, origin, definitions, path)
    if bare is tuple:
        return {"type": "array"}
    if origin is tuple:
        return _tuple(unwrapped.arguments, definitions, path)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _enum_schema(tuple(member.value for member in origin), path)
    raise _unsupported_annotation(bare, path)


def _is_scalar(bare: Any) -> bool:
    try:
        return bare in _SCALARS
    except TypeError:
        return False


def _items(arguments: tuple[Any, ...], definitions: _Definitions, path: str) -> dict[str, object]:
    return {"items": _schema(arguments[0], definitions, f"{path}/items")} if arguments else {}


def _map(arguments: tuple[Any, ...], definitions: _Definitions, path: str) -> dict[str, object]:
    if not arguments:
        return {"type": "object"}
    keys = _schema(arguments[0], definitions, f"{path}/propertyNames")
    if keys.get("type") != "string":
        raise _unsupported_annotation(arguments[0], f"{path}/propertyNames")
    names = {} if keys == {"type": "string"} else {"propertyNames": keys}
    return {"type": "object", **names, "additionalProperties": _schema(arguments[1], definitions, f"{path}/*")}


def _tuple(arguments: tuple[Any, ...], definitions: _Definitions, path: str) -> dict[str, object]:
    if not arguments:
        return {"type": "array", "maxItems": 0}
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", **_items(arguments, definitions, path)}
    entries = [_schema(entry, definitions, f"{path}/prefixItems/{index}") for index, entry in enumerate(arguments)]
    return {"type": "array", "prefixItems": entries, "items": False, "minItems": len(entries)}


def _enum_schema(values: tuple[object, ...], path: str) -> dict[str, object]:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for value in plain:
        if not isinstance(value, str | int | float | bool | None):
            raise _unsupported_annotation(type(value), path)
    names = {type_name(value) for value in plain}
    return {**({"type": names.pop()} if len(names) == 1 else {}), "enum": plain}


def _class(bare: Any, origin: Any, definitions: _Definitions, path: str) -> dict[str, object]:
    """The schema of a class inline, or a reference if the class contains itself."""
    if bare in definitions.unfinished or definitions.names.get(bare) in definitions.schemas:
        return {"$ref": ref_to(f"/$defs/{definitions.name_for(bare)}")}
    # While a class is unfinished, a reference back to it means recursion, and the class gets a definition.
    definitions.unfinished.add(bare)
    if is_pydantic_model(origin):
        schema = hoist(
            cast("dict[str, object]", origin.model_json_schema()), definitions.schemas, definitions.free_name
        )
    else:
        docstring = read_docstring(_own_docstring(origin))
        schema = _object(fields_of(origin) or (), docstring.parameters, definitions, path)
        schema.update({"description": docstring.description} if docstring.description else {})
    definitions.unfinished.discard(bare)
    if bare not in definitions.names:
        return schema
    definitions.schemas[definitions.names[bare]] = schema
    return {"$ref": ref_to(f"/$defs/{definitions.names[bare]}")}


def _own_docstring(cls: Any) -> str | None:
    """The docstring in the source code, without the signature that dataclasses and named tuples generate as one."""
    text = cast("str | None", cls.__dict__.get("__doc__"))
    return None if text is None or text.startswith(f"{cls.__name__}(") else text


def _note_keywords(note: Any, schema: dict[str, object]) -> dict[str, object]:
    """The keywords for one metadata item of `Annotated`; unknown metadata gives none."""
    if isinstance(note, str):
        return {"description": note}
    keywords: dict[str, object] = {}
    for inner in cast("list[object]", getattr(note, "metadata", [])):
        keywords.update(_note_keywords(inner, schema))
    if isinstance(getattr(note, "description", None), str):
        keywords["description"] = note.description
    for attribute, keyword in _NOTE_KEYWORDS.items():
        value = getattr(note, attribute, None)
        if isinstance(value, int | float | str):
            keywords[keyword] = value
    for attribute, side in (("min_length", "min"), ("max_length", "max")):
        value = getattr(note, attribute, None)
        if isinstance(value, int):
            keywords.update({side + unit: value for unit in _units(schema)})
    extra: object = getattr(note, "json_schema_extra", None)
    if isinstance(extra, Mapping):
        keywords.update(cast("Mapping[str, object]", extra))
    return keywords


def _units(schema: Mapping[str, object]) -> list[str]:
    """The units that a length applies to, one for each possible type: each keyword affects only its own type."""
    options = cast("list[Mapping[str, object]]", schema.get("anyOf", []))
    own = _LENGTHS.get(str(schema.get("type")))
    return [*([own] if own else []), *(unit for option in options for unit in _units(option))]


def _unsupported_annotation(annotation: Any, path: str) -> SchemaError:
    name = getattr(annotation, "__name__", str(annotation))
    is_binary = annotation in (bytes, bytearray, memoryview)
    return SchemaError(
        f"the type {name} has no JSON Schema",
        code="unsupported_annotation",
        path=path,
        hint="Use a str that contains base64 and decode it in the function."
        if is_binary
        else "Use str, int, float, bool, list, dict, an Enum, a dataclass, a TypedDict or a pydantic model.",
    )
