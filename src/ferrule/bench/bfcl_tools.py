"""BFCL's function documents as tool definitions would have them: read from the wheel's data, types spelled as JSON's.

The documents are written with the type names of Python, Java and JavaScript. Every name that is not JSON Schema's is
replaced by one rule of a table, which is counted; everything else stays as it is. Must not know Ferrule's admission,
formats or targets: what is wrong with a document besides its type names is for those to find.
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
"""What a rule gives for a name that says nothing of the value."""

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

# What holds one schema, and what holds schemas by name. The documents use no other keyword that holds any.
_ONE: Final = frozenset({"items", "additionalProperties"})
_BY_NAME: Final = frozenset({"properties"})

QUESTIONS: Final = "BFCL_v4_*.json"
DOCUMENTS: Final = "multi_turn_func_doc/*.json"


@dataclass(frozen=True, slots=True)
class FunctionDocument:
    """One distinct document: its name, what it is for, its parameters in JSON's types, and the rules that took."""

    name: str
    description: str
    parameters: dict[str, Any]
    rules: Counter[str]


def function_documents(data: Path) -> list[Document]:
    """Every document as often as BFCL shows it: those of the questions, then those that turns share."""
    found: list[Document] = []
    for path in sorted(data.glob(QUESTIONS)):
        for entry in _lines(path):
            offered: Any = entry.get("function", ())
            found.extend(cast("list[Document]", [offered] if isinstance(offered, Mapping) else offered))
    for path in sorted(data.glob(DOCUMENTS)):
        found.extend(_lines(path))
    return found


def distinct(documents: Iterable[Document]) -> list[FunctionDocument]:
    """The documents that differ in name, description or parameters, normalised, in the order in which they came."""
    seen: dict[str, FunctionDocument] = {}
    for document in documents:
        shown = [document["name"], document.get("description", ""), document.get("parameters", {})]
        # Properties in another order are another document: a rule keeps their order.
        key = json.dumps(shown)
        if key not in seen:
            parameters, rules = normalised(shown[2])
            seen[key] = FunctionDocument(shown[0], shown[1], parameters, rules)
    return list(seen.values())


def normalised(schema: Mapping[str, Any]) -> tuple[dict[str, Any], Counter[str]]:
    """A schema whose type names are JSON Schema's, and how often each name of another language was replaced."""
    used: Counter[str] = Counter()
    return _normalised(schema, used), used


def _normalised(schema: Mapping[str, Any], used: Counter[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for keyword, held in schema.items():
        if keyword == "type":
            said = _type(held, used)
            if said != ANYTHING:
                made[keyword] = said
        elif keyword in _ONE:
            made[keyword] = _inner(held, used)
        elif keyword in _BY_NAME and isinstance(held, Mapping):
            by_name = cast("Mapping[str, Any]", held)
            made[keyword] = {name: _inner(inner, used) for name, inner in by_name.items()}
        else:
            made[keyword] = held
    return made


def _inner(held: Any, used: Counter[str]) -> Any:
    return _normalised(cast("Mapping[str, Any]", held), used) if isinstance(held, Mapping) else held


def _type(held: Any, used: Counter[str]) -> Any:
    """A name as the table has it. What the table does not know stays, for admission to refuse."""
    if not isinstance(held, str) or held in _JSON_TYPES or held not in RULES:
        return held
    used[held] += 1
    return RULES[held]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a file with one on each line. The one file that is a single document holds no functions."""
    text = path.read_text(encoding="utf-8")
    if text.startswith("{\n"):
        return
    for line in text.splitlines():
        if line.strip():
            yield json.loads(line)
