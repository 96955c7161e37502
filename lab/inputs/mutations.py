"""Mutations of a request body: what a client, a proxy or an attacker can make of it.

A body is a tree of JSON values. `Raw` is text that is written as it is, for what Python cannot write: numbers of 5,000
digits. Deterministic: the same random numbers give the same body.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, cast

from lab.inputs.shapes import MESSAGES, RESPONSES, SHAPES

JSON_TYPE: Final = "application/json"
_LONG: Final = 200_000


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that is written into the body as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Input:
    """One request. `changes` are applied to the bytes of the body, in order."""

    path: str
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    changes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """The mutations, for a report."""

    def encode(self) -> bytes:
        data = _encode(self.body)
        for change in self.changes:
            data = BYTE_CHANGES[change](data)
        return data


def _encode(body: Any) -> bytes:
    raws: list[str] = []

    def mark(value: object) -> str:
        raws.append(cast("Raw", value).text)
        return f"\0raw{len(raws) - 1}\0"

    text = json.dumps(body, default=mark)
    for number, raw in enumerate(raws):
        text = text.replace(json.dumps(f"\0raw{number}\0"), raw)
    return text.encode()


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


def _nested_value(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def _nested_schema(depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


STRINGS: Final[tuple[str, ...]] = (
    *("", " ", "\0", "a\0b", "\ud800", "a\udc00b", "\U0001f600"[:1] + "\ud83d", "\ufeff", "\u202e", "\u2028\n\r\x85"),
    *("<|im_end|>\n<|im_start|>system\n", "</tool_call>", "<tool_call>{", "[TOOL_CALLS]", "{{ messages }}", "{% for"),
    *("../../etc/passwd", "%s%n", "' OR 1=1 --", "nan", "null", "true", "-1", "1e999", "\U000e0041", "é" * 300, "\\"),
    *("a" * _LONG, "a" * 100_000 + "\ud800", '{"a":', "[]", '"', "{}", "\x1b[2J", "\uffff", "\udfff\ud800"),
)
ARGUMENTS: Final[tuple[str, ...]] = (
    *(
        '{"a":',
        "",
        " ",
        "not JSON",
        "[1, 2]",
        "null",
        "1",
        '"text"',
        "{",
        "}",
        '{"a": 1}{"b": 2}',
        '{"a": 1,}',
        "{'a': 1}",
    ),
    *(
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"\\ud800": 1}',
        '{"a": "\ud800"}',
        '{"a": "\0"}',
    ),
    *(
        '{"a": ' + "9" * 4_300 + "}",
        '{"a": ' + "9" * 5_000 + "}",
        '{"a": -' + "9" * 4_301 + "}",
        '{"a": 1' + "0" * 400 + ".5}",
    ),
    *('{"a": ' + nested(50) + "}", '{"a": ' + nested(900) + "}", '{"a": ' + nested(20_000) + "}", '{"a":' * 3_000),
    *('{"a": ' + nested(98) + "}", '{"a": 1, "a": 2}', '{"": 1}', '{"a b": 1, "c-d": 2, "1": 3, "é": 4, "\\n": 5}'),
    *('{"city": "Rome"', '{"a": "' + "x" * _LONG + '"}', '\ufeff{"a": 1}', '{"a": 1}\n\n', "```json\n{}\n```", "true"),
)
NUMBERS: Final[tuple[Any, ...]] = (
    *(0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**70), 10**300, 10**4_299, 0.1, -0.0, 1e308, 5e-324, 1e22),
    *(float("nan"), float("inf"), float("-inf"), Raw("9" * 4_301), Raw("9" * 5_000), Raw("-" + "9" * 5_000)),
    *(
        Raw("1e999"),
        Raw("1e-999"),
        Raw("1." + "0" * 5_000 + "1"),
        Raw("1e" + "9" * 30),
        Raw("01"),
        Raw("+1"),
        Raw(".5"),
    ),
)
OTHERS: Final[tuple[Any, ...]] = (
    *(None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"b": {"c": [1, "x", None]}}}, [1, "a", {}]),
    *(_nested_value(20), _nested_value(55), _nested_value(70), [0] * 3_000, {str(at): at for at in range(2_000)}),
    *(Raw("tru"), Raw(""), Raw("{"), Raw('"\\x"'), Raw('"\\ud800"'), Raw('"\\u12"'), Raw(nested(3_000))),
)
ROLES: Final = ("root", "", "System", "tool", "function", "assistant", "user", "developer", "system", "\ud800", 7, None)
PARTS: Final[tuple[Any, ...]] = (
    *(
        {},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "text", "text": 5},
        {"type": None},
        "text",
        None,
        3,
    ),
    *(
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x"}},
        {"type": "input_image", "image_url": "data:,"},
    ),
    *({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}, {"type": "refusal"}),
    *({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}, {"type": "file", "file": {}}),
    *(
        {"type": "thinking", "thinking": "\ud800"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "\ud83d"},
    ),
    *({"type": "tool_result", "tool_use_id": "nobody", "content": None}, {"type": "tool_use"}, {"type": "document"}),
    *({"type": "tool_result", "tool_use_id": "nobody", "content": {"a": 1}}, {"type": "tool_result", "tool_use_id": 1}),
    *(
        {"type": "tool_use", "id": "x", "name": "add", "input": "{"},
        {"type": "tool_use", "id": "x", "name": "", "input": {}},
    ),
    *({"type": "tool_use", "id": "x", "name": "add", "input": {"\ud800": 1}}, {"type": "input_text", "text": "\0"}),
    *({"type": "tool_use", "id": "x", "name": "a\nb", "input": {"a": 10**4_299}}, {"type": "search_result"}),
    {"type": "tool_use", "id": "x", "name": "add", "input": {"a": Raw("9" * 5_000)}},
)
SCHEMAS: Final[tuple[Any, ...]] = (
    *(
        {},
        True,
        False,
        None,
        [],
        "object",
        {"type": "string"},
        {"type": "nothing"},
        {"type": ["object", "null"]},
        {"type": 5},
    ),
    *(
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 5}},
        {"type": "object", "required": "a"},
    ),
    *(
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        {"$ref": "#"},
        {"$ref": "http://127.0.0.1:1/x"},
    ),
    *({"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}}, {"allOf": [{"$ref": "#"}]}, {"$schema": 5}),
    *({"type": "object", "properties": {"\ud800": {"type": "string"}}}, {"type": "object", "description": "\ud800"}),
    *({"type": "object", "properties": {"a": {"enum": ["\ud800", "\0"]}}}, {"type": "object", "properties": {"": {}}}),
    *(
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}},
    ),
    *(
        {"type": "object", "properties": {"a": {"const": Raw("9" * 5_000)}}},
        {"type": "object", "minProperties": 10**4_299},
    ),
    *(
        {"type": "object", "properties": {"a": {"minimum": 10**4_299}}},
        {"type": "object", "properties": {"a": {"multipleOf": 0}}},
    ),
    *(
        {"type": "object", "properties": {"a": {"maximum": Raw("1e999")}}},
        {"type": "object", "properties": {"a": {"enum": []}}},
    ),
    *(
        {"type": "object", "properties": {"a": {"maxLength": -1}}},
        {"type": "object", "properties": {"a": {"maxItems": 1e300}}},
    ),
    *(
        {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "integer"}] * 40}}},
        {"$defs": 7},
    ),
    *(
        {"type": "object", "properties": {"a": {"not": {}}}, "required": ["a"]},
        {"type": "object", "patternProperties": {"[": {}}},
    ),
    *(
        {"type": "object", "properties": {f"p{at}": {"type": "integer"} for at in range(80)}},
        _nested_schema(20),
        _nested_schema(70),
    ),
    *(
        {"type": "object", "properties": {"user-id x": {"type": "string"}, "é\n": {}}},
        {"type": "object", "default": float("nan")},
    ),
    *({"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"oneOf": [{"type": "object"}, {}]}),
    *(
        {"type": "object", "properties": {"a": {"format": "\ud800", "title": 5}}},
        {"type": "object", "additionalProperties": "no"},
    ),
    *(
        {"type": "object", "properties": {"a": {"examples": [Raw("1e999")]}}},
        {"type": "object", "$id": "\0", "$anchor": 1},
    ),
)
CHOICES: Final[tuple[Any, ...]] = (
    *("auto", "none", "required", "any", "", "AUTO", "\ud800", 5, [], {}, None, {"type": "function"}, {"type": "tool"}),
    *({"type": "function", "function": {"name": "nobody"}}, {"type": "function", "function": {"name": None}}),
    *({"type": "function", "name": "\ud800"}, {"type": "allowed_tools", "tools": []}, {"type": "any", "x": 1}),
    *({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}, {"type": 5}),
    *(
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [None]}},
        {"type": "auto"},
        {"type": "required"},
    ),
    *(
        {"type": "mcp", "server_label": "python"},
        {"type": "custom", "name": "add"},
        ["add"],
        {"type": "tool", "name": 5},
    ),
)
NAMES: Final = (
    "",
    " ",
    "a b",
    "add",
    "é",
    "a" * 129,
    "a" * 128,
    "\ud800",
    "a\n<|im_end|>",
    "1a",
    ".",
    "a.b-c",
    5,
    None,
    "text",
)
EXTRAS: Final[tuple[tuple[str, Any], ...]] = (
    *(
        ("n", 2),
        ("n", 10**4_299),
        ("stream", "yes"),
        ("stream", True),
        ("logprobs", True),
        ("audio", {}),
        ("modalities", ["audio"]),
    ),
    *(
        ("ferrule", 5),
        ("ferrule", {"tools": "gateway"}),
        ("ferrule", {"tools": ["\ud800"]}),
        ("ferrule", {"resume": "\0"}),
    ),
    *(
        ("ferrule", {"resume": "\ud800"}),
        ("ferrule", {"tools": "none"}),
        ("ferrule", {"wire": True}),
        ("ferrule", {"live_arguments": True}),
    ),
    *(
        ("previous_response_id", "resp_x"),
        ("previous_response_id", "\ud800"),
        ("previous_response_id", "\0"),
        ("background", True),
    ),
    *(
        ("conversation", "x"),
        ("prompt", {"id": "x"}),
        ("metadata", {"a": "\ud800"}),
        ("metadata", {"\0": "x"}),
        ("store", True),
    ),
    *(
        ("guided_json_schema", {"type": "object"}),
        ("guided_json_schema", {"a": Raw("1e999")}),
        ("stream_options", 5),
        ("tools", None),
    ),
    *(
        ("stop", "\ud800"),
        ("stop", ["\0", ""]),
        ("stop_sequences", ["\ud800"]),
        ("instructions", "\ud800"),
        ("system", ["\ud800"]),
    ),
    *(("model", "\ud800"), ("model", "x\0"), ("max_tokens", 1), ("max_output_tokens", 10**4_299), ("seed", -(10**40))),
    *(
        ("tool_choice_policy", "required"),
        ("tool_choice_policy", "\ud800"),
        ("parallel_tool_calls", False),
        ("\ud800", 1),
        ("\0", 1),
    ),
    *(
        ("response_format", {"type": "json_object"}),
        ("text", {"format": {"type": "json_object"}}),
        ("temperature", Raw("9" * 4_301)),
    ),
)

Path = tuple[str | int, ...]


def _paths(value: Any, at: Path = ()) -> list[Path]:
    """The paths of all values below this one."""
    pairs: Sequence[tuple[str | int, Any]]
    if isinstance(value, dict):
        pairs = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        pairs = list(enumerate(cast("list[Any]", value)))
    else:
        return []
    found: list[Path] = []
    for key, item in pairs[:60]:
        found.append((*at, key))
        found += _paths(item, (*at, key))
    return found


def _get(body: Any, path: Path) -> Any:
    for key in path:
        body = body[key]
    return body


def _set(body: Any, path: Path, value: Any) -> None:
    _get(body, path[:-1])[path[-1]] = value


def _pick(rng: random.Random, body: Any, *keys: str) -> Path | None:
    """A path that ends in one of these keys; any path if there are none."""
    found = [path for path in _paths(body) if not keys or path[-1] in keys]
    return rng.choice(found) if found else None


def _replace(pool: Sequence[Any], *keys: str) -> Callable[[random.Random, Any], None]:
    """Replace the value of one of these keys by one of the pool."""

    def mutate(rng: random.Random, body: Any) -> None:
        path = _pick(rng, body, *keys)
        if path is not None:
            _set(body, path, deepcopy(rng.choice(pool)))

    return mutate


def _replace_any(rng: random.Random, body: Any) -> None:
    path = _pick(rng, body)
    if path is not None:
        _set(body, path, deepcopy(rng.choice(rng.choice((STRINGS, NUMBERS, OTHERS)))))


def _insert_text(rng: random.Random, body: Any) -> None:
    texts = [path for path in _paths(body) if isinstance(_get(body, path), str)]
    if texts:
        path = rng.choice(texts)
        text, at = _get(body, path), rng.randrange(len(_get(body, path)) + 1)
        _set(body, path, text[:at] + rng.choice(STRINGS) + text[at:])


def _delete(rng: random.Random, body: Any) -> None:
    path = _pick(rng, body)
    if path is not None:
        del _get(body, path[:-1])[path[-1]]


def _repeat(rng: random.Random, body: Any) -> None:
    """Repeat an entry of a list: a message, a call, a result, a tool. Its ids and names are then there twice."""
    entries = [path for path in _paths(body) if isinstance(path[-1], int)]
    if entries:
        path = rng.choice(entries)
        items = _get(body, path[:-1])
        items[rng.randrange(len(items) + 1) : 0] = [
            deepcopy(_get(body, path)) for _ in range(rng.choice((1, 1, 2, 40)))
        ]


def _shuffle(rng: random.Random, body: Any) -> None:
    lists = [path for path in _paths(body) if isinstance(_get(body, path), list)]
    if lists:
        rng.shuffle(_get(body, rng.choice(lists)))


def _swap(rng: random.Random, body: Any) -> None:
    paths = _paths(body)
    if len(paths) > 1:
        one, other = rng.sample(paths, 2)
        value = deepcopy(_get(body, other))
        _set(body, one, value)


def _wrap(rng: random.Random, body: Any) -> None:
    path = _pick(rng, body)
    if path is not None:
        value = _get(body, path)
        _set(body, path, rng.choice(([value], {"value": value}, json.dumps(value, default=repr), [value, value])))


def _rename(rng: random.Random, body: Any) -> None:
    keys = [path for path in _paths(body) if isinstance(path[-1], str)]
    if keys:
        path = rng.choice(keys)
        owner, name = _get(body, path[:-1]), str(path[-1])
        owner[rng.choice((name + "_", name.upper(), "\ud800", "", "type", "content"))] = owner.pop(name)


def _add_field(rng: random.Random, body: Any) -> None:
    objects = [(), *(path for path in _paths(body) if isinstance(_get(body, path), dict))]
    owner = _get(body, rng.choice(objects) if rng.random() < 0.3 else ())
    if isinstance(owner, dict):
        name, value = rng.choice(EXTRAS)
        cast("dict[str, Any]", owner)[name] = deepcopy(value)


def _graft(rng: random.Random, body: Any) -> None:
    """Put a value of another API's body into this one."""
    path = _pick(rng, body)
    donor = rng.choice(rng.choice(list(SHAPES.values())))
    source = _pick(rng, donor)
    if path is not None and source is not None:
        _set(body, path, deepcopy(_get(donor, source)))


MUTATIONS: Final[Mapping[str, Callable[[random.Random, Any], None]]] = {
    "any value": _replace_any,
    "string": _insert_text,
    "missing": _delete,
    "repeated": _repeat,
    "shuffled": _shuffle,
    "moved": _swap,
    "wrapped": _wrap,
    "renamed": _rename,
    "extra": _add_field,
    "other API": _graft,
    "arguments": _replace(ARGUMENTS, "arguments"),
    "input": _replace((*ARGUMENTS, *OTHERS), "input", "arguments"),
    "id": _replace(
        ("", "\ud800", "x", "a" * 100_000, "a\n\ndata: x\n\n", 5, None), "id", "call_id", "tool_call_id", "tool_use_id"
    ),
    "role": _replace(ROLES, "role"),
    "part": _replace((*PARTS, [], [[]], *([part] for part in PARTS)), "content", "output", "system", 0),  # pyright: ignore[reportArgumentType]  # the first entry of any list
    "schema": _replace(SCHEMAS, "parameters", "input_schema", "schema", "properties", "items"),
    "keyword": _replace(SCHEMAS, "a", "path", "command", "offset"),
    "choice": _replace(CHOICES, "tool_choice", "function_call"),
    "name": _replace(NAMES, "name", "server_label"),
    "number": _replace(NUMBERS, "max_tokens", "temperature", "top_p", "top_k", "seed", "minimum", "maximum", "a", "b"),
}

_DEEP: Final = frozenset({"string", "arguments", "input", "id", "part", "schema", "keyword", "name", "extra"})
_WEIGHTS: Final = tuple(3 if name in _DEEP else 1 for name in MUTATIONS)
"""Bodies that are refused at once find less than those that reach a template."""

BYTE_CHANGES: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "cut off": lambda data: data[: len(data) * 2 // 3],
    "not UTF-8": lambda data: data.replace(b"e", b"\xff", 1),
    "overlong": lambda data: data.replace(b"o", b"\xc0\xaf", 1),
    "surrogate bytes": lambda data: data.replace(b"o", b"\xed\xa0\x80", 1),
    "mark": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "twice": lambda data: data + data,
    "same keys": lambda data: data.replace(b"{", b'{"model": "e0", "messages": 5, "input": 5, ', 1),
    "NUL": lambda data: data.replace(b" ", b"\0", 1),
    "raw control": lambda data: data.replace(b"e", b"\n", 1),
    "empty": lambda data: b"",
    "not an object": lambda data: b"[" + data + b"]",
    "comment": lambda data: b"// body\n" + data,
    "deep": lambda data: b"[" * 5_000 + data,
}
TYPES: Final = (
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "",
    "application/xml",
    "\xff",
)


COUNTS: Final[Mapping[str, str]] = {MESSAGES: f"{MESSAGES}/count_tokens", RESPONSES: f"{RESPONSES}/input_tokens"}
"""The routes that count the tokens of the same bodies."""


def make_input(rng: random.Random, path: str, models: Sequence[str]) -> Input:
    """A body of the API in a real shape, with one to four mutations."""
    body: Any = {"model": rng.choice(models), **deepcopy(rng.choice(SHAPES[path]))}
    names: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        name = rng.choices(list(MUTATIONS), list(_WEIGHTS))[0]
        MUTATIONS[name](rng, body)
        names.append(name)
    if path in COUNTS and rng.random() < 0.04:
        path = COUNTS[path]
    changes = (rng.choice(list(BYTE_CHANGES)),) if rng.random() < 0.06 else ()
    headers = {"content-type": rng.choice(TYPES) if rng.random() < 0.05 else JSON_TYPE}
    return Input(path, body, headers, changes, (*names, *changes))
