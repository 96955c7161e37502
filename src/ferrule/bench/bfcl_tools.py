"""Convert BFCL's function documents to JSON Schema type names.

The documents use the type names of Python, Java and JavaScript. Every name that JSON Schema does not have is replaced
by one rule of a table, and the replacements are counted; everything else is unchanged. Independent of schema admission,
formats and targets: they find whatever else is wrong with a document.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

Document = Mapping[str, Any]

_JSON_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
ANYTHING: Final = "no type"
"""The replacement for a name that does not restrict the value."""

RULES: Final[Mapping[str, str]] = {
    # Python
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "any": ANYTHING,
    # Java and JavaScript
    "String": "string",
    "char": "string",
    "Integer": "integer",
    "int": "integer",
    "long": "integer",
    "double": "number",
    "Boolean": "boolean",
    "Array": "array",
    "ArrayList": "array",
    "HashMap": "object",
    # Left empty by the author
    "": ANYTHING,
}

# Keywords that contain one schema, and keywords that contain schemas by name. The documents use no others.
_ONE: Final = frozenset({"items", "additionalProperties"})
_BY_NAME: Final = frozenset({"properties"})

QUESTIONS: Final = "BFCL_v4_*.json"
DOCUMENTS: Final = "multi_turn_func_doc/*.json"


@dataclass(frozen=True, slots=True)
class FunctionDocument:
    """One distinct document: name, description, parameters with JSON Schema types, and the rules that were applied."""

    name: str
    description: str
    parameters: dict[str, Any]
    rules: Counter[str]


def function_documents(data: Path) -> list[Document]:
    """All documents, as often as they occur in BFCL: those of the questions, then those shared by multi-turn tests."""
    documents: list[Document] = []
    for path in sorted(data.glob(QUESTIONS)):
        for entry in _lines(path):
            functions: Any = entry.get("function", ())
            documents.extend(cast("list[Document]", [functions] if isinstance(functions, Mapping) else functions))
    for path in sorted(data.glob(DOCUMENTS)):
        documents.extend(_lines(path))
    return documents


def distinct_documents(documents: Iterable[Document]) -> list[FunctionDocument]:
    """The documents that differ in name, description or parameters, with normalized types, in order."""
    by_key: dict[str, FunctionDocument] = {}
    for document in documents:
        identity = [document["name"], document.get("description", ""), document.get("parameters", {})]
        # A different order of properties makes a different document, because a rule keeps their order.
        key = json.dumps(identity)
        if key not in by_key:
            parameters, rules = normalize_types(identity[2])
            by_key[key] = FunctionDocument(identity[0], identity[1], parameters, rules)
    return list(by_key.values())


def normalize_types(schema: Mapping[str, Any]) -> tuple[dict[str, Any], Counter[str]]:
    """A schema with JSON Schema type names only, and how often each other name was replaced."""
    counts: Counter[str] = Counter()
    return _normalize(schema, counts), counts


def _normalize(schema: Mapping[str, Any], counts: Counter[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "type":
            type_name = _normalize_type(value, counts)
            if type_name != ANYTHING:
                result[keyword] = type_name
        elif keyword in _ONE:
            result[keyword] = _normalize_inner(value, counts)
        elif keyword in _BY_NAME and isinstance(value, Mapping):
            by_name = cast("Mapping[str, Any]", value)
            result[keyword] = {name: _normalize_inner(inner, counts) for name, inner in by_name.items()}
        else:
            result[keyword] = value
    return result


def _normalize_inner(value: Any, counts: Counter[str]) -> Any:
    return _normalize(cast("Mapping[str, Any]", value), counts) if isinstance(value, Mapping) else value


def _normalize_type(value: Any, counts: Counter[str]) -> Any:
    """A type name, replaced by the table. Unknown names stay, and schema admission refuses them."""
    if not isinstance(value, str) or value in _JSON_TYPES or value not in RULES:
        return value
    counts[value] += 1
    return RULES[value]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a JSON Lines file. The one file that is a single JSON document contains no functions."""
    text = path.read_text(encoding="utf-8")
    if text.startswith("{\n"):
        return
    for line in text.splitlines():
        if line.strip():
            yield json.loads(line)
