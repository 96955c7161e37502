"""Operations of an OpenAPI document, each as a tool.

Every parameter is an argument of its own name, and the request body is the argument `body`. Two parameters of one name
in different places get the place before it (`query_id`). GET and HEAD read; everything else has side effects, whatever
its description says, because a document is a claim of somebody else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.json_text import digest, dumps
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.schema.admission import DEFAULT_LIMITS
from ferrule.sources.openapi.document import Document, resolve
from ferrule.sources.openapi.schema_conversion import MAX_DEFINITIONS, SchemaConverter

MAX_NAME = 64
"""What the APIs of all providers accept."""
MAX_DESCRIPTION = 1_000
BODY = "body"
JSON_BODY, FORM_BODY = "application/json", "application/x-www-form-urlencoded"
_ANY_BODY = ("*/*", "application/*")
_CUTS = (
    (200, MAX_DEFINITIONS),
    (0, MAX_DEFINITIONS),
    *((0, count) for count in (30, 15, 5, 0)),
)
"""How long the descriptions of a schema that is too large may be, and how many definitions it may have. The first cut
that is small enough is used."""
_METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
_READS = frozenset({"get", "head"})
_PLACES = ("path", "query", "header", "cookie")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_\-]+")
# A client may not set them, or they are set by the source itself.
_OWN_HEADERS = frozenset({"accept", "content-type", "authorization", "host", "content-length", "cookie", "connection"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation: the argument that holds it, and how it is written into the request."""

    argument: str
    name: str
    place: str
    style: str
    explodes: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, and the tool that it is offered as. `body_type` is the media type of the body, if it has one."""

    method: str
    path: str
    parameters: tuple[Parameter, ...]
    body_type: str
    tool: ToolDefinition
    is_open: bool
    """Whether a part of its schema was too large and accepts any value."""


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of an operation: their schema, and how they are sent."""

    schema: dict[str, Any]
    parameters: tuple[Parameter, ...]
    body_type: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of a document, and why some of it cannot be called."""

    operations: tuple[Operation, ...]
    notices: tuple[str, ...]


def operations_of(document: Document, prefix: str = "", hidden: Collection[str] = ()) -> Operations:
    """Return the operations of a document, with unique tool names that begin with the prefix.

    `hidden` are the names of parameters that the source fills in itself, such as a key; no tool has them.
    """
    hidden_names = frozenset(name.lower() for name in hidden)
    found: list[Operation] = []
    notices: list[str] = []
    names: set[str] = set()
    for method, path, entry, shared in _entries(document):
        name = _tool_name(prefix, method, path, entry, names)
        try:
            operation = _operation(document, name, method, path, entry, shared, hidden_names)
        except DefinitionError as refusal:
            notices.append(f"{method.upper()} {path} is not offered: {refusal.message}")
            continue
        names.add(name)
        found.append(operation)
    return Operations(tuple(found), tuple(notices))


def _entries(document: Document) -> Iterator[tuple[str, str, Mapping[str, Any], list[object]]]:
    """Yield method, path, operation and the parameters of its whole path."""
    for path, item in document["paths"].items():
        fields = resolve(document, item)
        if not isinstance(fields, Mapping) or not isinstance(path, str):
            continue
        by_method = cast("Mapping[str, Any]", fields)
        shared = by_method.get("parameters")
        for method in _METHODS:
            entry = by_method.get(method)
            if isinstance(entry, Mapping):
                common = cast("list[object]", shared) if isinstance(shared, list) else []
                yield method, path, cast("Mapping[str, Any]", entry), common


def _tool_name(prefix: str, method: str, path: str, entry: Mapping[str, Any], names: set[str]) -> str:
    own = entry.get("operationId")
    text = own if isinstance(own, str) and own else f"{method}_{path}"
    plain = _NOT_IN_A_NAME.sub("_", f"{prefix}_{text}" if prefix else text).strip("_")
    name = plain if plain[:1].isalpha() else f"op_{plain}"
    if len(name) <= MAX_NAME and name not in names:
        return name
    suffix = digest([method, path])[:8]
    return f"{name[: MAX_NAME - len(suffix) - 1]}-{suffix}"


def _operation(
    document: Document,
    name: str,
    method: str,
    path: str,
    entry: Mapping[str, Any],
    shared: list[object],
    hidden: Collection[str],
) -> Operation:
    if not path.startswith("/"):
        # Behind the server's address it would be a part of the host: "@other.example", ".other.example", ":8080".
        raise DefinitionError('its path does not begin with "/"')
    arguments = _smallest_needed(document, path, entry, shared, hidden)
    tool = ToolDefinition(name, _description(method, path, entry), arguments.schema, side_effects=method not in _READS)
    return Operation(method.upper(), path, arguments.parameters, arguments.body_type, tool, arguments.is_open)


def _smallest_needed(
    document: Document, path: str, entry: Mapping[str, Any], shared: list[object], hidden: Collection[str]
) -> _Arguments:
    """Return the arguments of an operation, with as much of their schema as is admitted."""
    arguments = _arguments(SchemaConverter(document), path, entry, shared, hidden)
    for description_length, definitions in _CUTS:
        if len(dumps(arguments.schema).encode()) <= DEFAULT_LIMITS.max_bytes:
            break
        converter = SchemaConverter(document, max_description=description_length, max_definitions=definitions)
        arguments = _arguments(converter, path, entry, shared, hidden)
    # The last one may be too large too: then the admission refuses the tool, and says why.
    return arguments


def _arguments(
    converter: SchemaConverter, path: str, entry: Mapping[str, Any], shared: list[object], hidden: Collection[str]
) -> _Arguments:
    document, own = converter.document, entry.get("parameters")
    entries = _parameters(document, [*shared, *(cast("list[object]", own) if isinstance(own, list) else [])], hidden)
    counts = Counter(one["name"] for one in entries)
    properties: dict[str, Any] = {}
    required: list[str] = []
    parameters: list[Parameter] = []
    for one in entries:
        is_ambiguous = counts[one["name"]] > 1 or one["name"] == BODY
        argument = f"{one['in']}_{one['name']}" if is_ambiguous else str(one["name"])
        properties[argument] = _described(converter.convert(_schema_of(one)), one)
        if one["in"] == "path" or one.get("required") is True:
            required.append(argument)
        parameters.append(_parameter(argument, one))
    for placeholder in re.findall(r"\{([^{}]*)\}", path):
        if not any(one.place == "path" and one.name == placeholder for one in parameters):
            raise DefinitionError(f"its path has {{{placeholder}}}, which is no parameter")
    body_type, body_schema, body_required = _body(document, entry)
    if body_type:
        properties[BODY] = converter.convert(body_schema)
        required += [BODY] if body_required else []
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if converter.definitions:
        schema["$defs"] = converter.definitions
    return _Arguments(schema, tuple(parameters), body_type, converter.is_open)


def _parameters(document: Document, entries: list[object], hidden: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the parameters; one of the operation replaces one of its path. Hidden ones and cookies are left out."""
    by_key: dict[tuple[str, str], Mapping[str, Any]] = {}
    for entry in entries:
        one = cast("Mapping[str, Any]", resolve(document, entry))
        place, name = one.get("in"), one.get("name")
        if place not in _PLACES or not isinstance(name, str) or not name:
            raise DefinitionError(f"a parameter is in {place!r:.40}", hint="Use path, query, header or cookie.")
        if place == "cookie" or (place == "header" and name.lower() in _OWN_HEADERS):
            continue
        if place != "path" and name.lower() in hidden:
            continue
        by_key[place, name] = one
    return list(by_key.values())


def _schema_of(parameter: Mapping[str, Any]) -> object:
    content = parameter.get("content")
    if isinstance(content, Mapping):
        media = cast("Mapping[str, Any]", content).get(JSON_BODY)
        if not isinstance(media, Mapping):
            raise DefinitionError(f"the parameter {parameter['name']!r:.40} has a content that is not JSON")
        return cast("Mapping[str, Any]", media).get("schema", {})
    return parameter.get("schema", {"type": "string"})


def _parameter(argument: str, one: Mapping[str, Any]) -> Parameter:
    place = str(one["in"])
    style = "json" if "content" in one else str(one.get("style", "form" if place == "query" else "simple"))
    explodes = bool(one.get("explode", style == "form"))
    return Parameter(argument, str(one["name"]), place, style, explodes)


def _described(schema: Any, parameter: Mapping[str, Any]) -> Any:
    text = parameter.get("description")
    if not isinstance(schema, dict) or not isinstance(text, str) or "description" in schema:
        return cast("Any", schema)
    return {**cast("dict[str, Any]", schema), "description": text[:MAX_DESCRIPTION]}


def _body(document: Document, entry: Mapping[str, Any]) -> tuple[str, object, bool]:
    """Return the media type of the body, its schema, and whether it is required; an empty type if there is no body."""
    body = resolve(document, entry.get("requestBody"))
    if not isinstance(body, Mapping):
        return "", {}, False
    fields = cast("Mapping[str, Any]", body)
    content = cast("Mapping[str, Any]", fields.get("content") or {})
    for media_type, media in content.items():
        kind = media_type.partition(";")[0].strip().lower()
        kind = JSON_BODY if kind in _ANY_BODY else kind
        is_text = kind.startswith("text/")
        if is_text or kind in (JSON_BODY, FORM_BODY) or kind.endswith("+json"):
            schema = cast("Mapping[str, Any]", media or {}).get("schema", {})
            return kind, {"type": "string"} if is_text else schema, fields.get("required") is True
    if not content:
        return "", {}, False
    raise DefinitionError(f"its body is {', '.join(content)[:80]}, and only JSON, forms and text can be sent")


def _description(method: str, path: str, entry: Mapping[str, Any]) -> str:
    texts = [str(entry[name]).strip() for name in ("summary", "description") if isinstance(entry.get(name), str)]
    unique = list(dict.fromkeys(filter(None, texts))) or [f"{method.upper()} {path}"]
    return "\n".join(unique)[:MAX_DESCRIPTION]
