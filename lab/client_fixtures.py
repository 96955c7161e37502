"""Make fixtures of requests that were captured from agent clients: the shapes stay, the texts become our own.

    scripts/long client-fixtures FOLDER

FOLDER has a folder for each client, with one JSON file for each captured request: `{"method", "path", "body"}`, named
`SCENARIO-NN.json`. One file for each client is written to `tests/clients/`. Structure, keys, types, names of tools and
properties, keywords of schemas and words that an API defines are kept. Every other text is replaced, so that nothing
that a vendor or a user wrote is left: prompts, descriptions, results, ids, grammars, images.

What occurs more than once in a file, such as the tools of every request, is written once and referred to by
`{"$shared": N}`; `expand` puts it back.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

from lab.paths import ROOT

FIXTURES = ROOT / "tests" / "clients"
SHARED = "$shared"
_SHORTEST_SHARED = 200
_WORD = 40
# The values of these keys are words that an API or a client defines, and not texts.
_WORDS = frozenset(
    {"type", "role", "name", "status", "execution", "syntax", "effort", "context", "verbosity", "display", "keep"}
    | {"detail", "media_type", "tool_choice", "mode", "namespace", "tool_name", "summary", "$schema", "format"}
)
_WORD_LISTS = frozenset({"required", "enum", "include", "search_content_types", "type", "allowed_callers"})
_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id"})
_SCHEMAS = frozenset({"parameters", "input_schema", "schema"})
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_GRAMMAR = "start: LINE+\nLINE: /[^\\n]*\\n/"
_TEXTS = {
    "description": "What this is for.",
    "model": "m",
    "data": _PNG,
    "url": f"data:image/png;base64,{_PNG}",
    "image_url": f"data:image/png;base64,{_PNG}",
    "definition": _GRAMMAR,
    "instructions": "You help with code.",
    "prompt_cache_key": "key",
    "user_id": "user",
}


class Anonymizer:
    """Replaces the texts of one file's requests. The same id gets the same replacement."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def value(self, value: Any, key: str = "") -> Any:
        match value:
            case dict():
                fields = cast("dict[str, Any]", value)
                if key in _SCHEMAS:
                    return self.schema(fields)
                if key == "client_metadata":
                    return dict.fromkeys(fields, "value")
                return {name: self.value(one, name) for name, one in fields.items()}
            case list():
                return [
                    one if key in _WORD_LISTS and isinstance(one, str) else self.value(one, key)
                    for one in cast("list[Any]", value)
                ]
            case str():
                return self._text(value, key)
            case _:
                return value

    def schema(self, value: Any, key: str = "") -> Any:
        """A JSON Schema: names of properties and values of enumerations are kept, texts are not."""
        match value:
            case dict():
                return {name: self.schema(one, name) for name, one in cast("dict[str, Any]", value).items()}
            case list():
                return [
                    one if key in _WORD_LISTS and isinstance(one, str) else self.schema(one)
                    for one in cast("list[Any]", value)
                ]
            case str() if key in {"description", "title", "$comment"}:
                return "What this is for."
            case str() if key in {"type", "$schema", "$ref", "pattern", "format", "const"}:
                return value
            case str():
                return value if len(value) <= _WORD and " " not in value else "text"
            case _:
                return value

    def _text(self, value: str, key: str) -> str:
        if key in _IDS:
            prefix = value.rpartition("_")[0] or "id"
            return self._ids.setdefault(value, f"{prefix}_{len(self._ids)}")
        if key in _TEXTS:
            return _TEXTS[key]
        if key in _WORDS and len(value) <= 2 * _WORD and " " not in value:
            return value
        if key == "arguments":
            return self._arguments(value)
        return "" if not value else "Some text."

    def _arguments(self, text: str) -> str:
        """The arguments of a call: JSON of the same shape, or text that is broken as it was."""
        try:
            return json.dumps(self.value(json.loads(text)), separators=(",", ":"))
        except ValueError:
            return '{"path": "no'


def inner_values(value: Any) -> list[Any]:
    return list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)


def share(requests: list[dict[str, Any]]) -> dict[str, Any]:
    """Write everything large that occurs more than once in one place."""
    counts: Counter[str] = Counter()

    def count(value: Any) -> None:
        if isinstance(value, dict | list):
            text = json.dumps(value)
            if len(text) >= _SHORTEST_SHARED:
                counts[text] += 1
                if counts[text] > 1:
                    return
            for one in inner_values(value):
                count(one)

    count(requests)
    places: dict[str, int] = {}
    shared: list[Any] = []

    def pack(value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        text = json.dumps(value)
        if counts[text] > 1:
            if text not in places:
                places[text] = len(shared)
                shared.append(None)
                shared[places[text]] = inside(value)
            return {SHARED: places[text]}
        return inside(value)

    def inside(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: pack(one) for name, one in cast("dict[str, Any]", value).items()}
        return [pack(one) for one in value]

    packed = [pack(one) for one in requests]
    return {"requests": packed, "shared": shared}


def expand(fixture: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the requests of a fixture file as they were before `share`."""
    shared = fixture["shared"]

    def unpack(value: Any) -> Any:
        match value:
            case {"$shared": int(place)}:
                return unpack(shared[place])
            case dict():
                return {name: unpack(one) for name, one in cast("dict[str, Any]", value).items()}
            case list():
                return [unpack(one) for one in cast("list[Any]", value)]
            case _:
                return value

    return [unpack(one) for one in fixture["requests"]]


def fixture_of(folder: Path) -> dict[str, Any]:
    """Return the fixture of one client's captured requests."""
    anonymizer = Anonymizer()
    requests: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.json")):
        captured = json.loads(path.read_text(encoding="utf-8"))
        if captured["method"] != "POST":
            # Probes, such as a client's look whether anybody is there, have no body.
            continue
        head = {"case": path.stem, "path": captured["path"]}
        requests.append({**head, "body": anonymizer.value(captured["body"])})
    return share(requests)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/long client-fixtures FOLDER")
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        text = json.dumps(fixture_of(folder), separators=(",", ":"), ensure_ascii=False)
        (FIXTURES / f"{folder.name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"tests/clients/{folder.name}.json: {len(text)} characters")


if __name__ == "__main__":
    main()
