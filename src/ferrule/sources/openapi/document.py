"""Read an OpenAPI document from a file. References outside the document are refused; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.errors import DefinitionError

MAX_BYTES = 64 * 1024 * 1024
_MAX_REFERENCES = 32
"""How many references may follow each other before one is an object."""
Document = Mapping[str, Any]


def read_document(path: str | PathLike[str]) -> Document:
    """Read a JSON or YAML file. Raises `DefinitionError` unless it is an OpenAPI 3 document."""
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise DefinitionError(f"{file} is larger than {MAX_BYTES:,} bytes", hint="Remove operations from it.")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise DefinitionError(f"cannot read {file}: {problem.strerror}", hint="Name an OpenAPI file.") from problem
    except UnicodeDecodeError as problem:
        raise DefinitionError(f"{file} is not UTF-8 text", hint="Save it as UTF-8.") from problem
    try:
        value = loads(text) if text.lstrip().startswith("{") else _load_yaml(text)
    except (ValueError, RecursionError) as problem:
        raise DefinitionError(f"{file} is neither JSON nor YAML: {problem}", hint="Name an OpenAPI file.") from problem
    return check_document(value, str(file))


def check_document(value: object, name: str = "the document") -> Document:
    """Return the value if it is an OpenAPI 3 document."""
    document = cast("Document", value if isinstance(value, Mapping) else {})
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        found = (
            f"OpenAPI {version}" if version else f"Swagger {document['swagger']}" if "swagger" in document else "none"
        )
        raise DefinitionError(
            f"{name} is not an OpenAPI 3 document (version: {found})", hint="Convert it to OpenAPI 3.0 or 3.1."
        )
    if not isinstance(document.get("paths"), Mapping):
        raise DefinitionError(f"{name} has no paths", hint="A document without paths describes no operation.")
    return document


def resolve(document: Document, value: object) -> Any:
    """Follow a reference to the object that it names. An object that is no reference is returned as it is."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(value, Mapping) or "$ref" not in value:
            return cast("Any", value)
        value = target_of(document, cast("Mapping[str, Any]", value)["$ref"])
    raise DefinitionError("a reference leads to more references than can be followed", hint="Remove the cycle.")


def target_of(document: Document, reference: object) -> Any:
    """Return what a reference names in the document."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise DefinitionError(
            f"the reference {reference!r:.80} leads out of the document", hint="Bundle the document into one file."
        )
    value: Any = document
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        items = cast("list[Any]", value) if isinstance(value, list) else []
        if name.isdigit() and int(name) < len(items):
            value = items[int(name)]
        elif isinstance(value, Mapping) and name in value:
            value = cast("Mapping[str, Any]", value)[name]
        else:
            raise DefinitionError(f"the reference {reference!r:.80} names nothing", hint="Mend the document.")
    return value


def _load_yaml(text: str) -> object:
    try:
        import yaml
    except ImportError as missing:
        raise DefinitionError(
            "an OpenAPI document in YAML needs PyYAML", code="missing_package", hint='pip install "ferrule[openapi]"'
        ) from missing
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as problem:
        raise ValueError(str(problem)) from problem
