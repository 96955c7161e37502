"""Mutations of a request body: what a client, a proxy or an attacker can make of it.

A body is a tree of JSON values. Deterministic: the same random numbers give the same body.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, cast

from lab.inputs.input import BYTE_CHANGES, TYPES, Input
from lab.inputs.odd_values import (
    ARGUMENTS,
    CHOICES,
    EXTRAS,
    NAMES,
    NUMBERS,
    OTHERS,
    PARTS,
    ROLES,
    SCHEMAS,
    STRINGS,
)
from lab.inputs.shapes import MESSAGES, RESPONSES, SHAPES

JSON_TYPE: Final = "application/json"

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
