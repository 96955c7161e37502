"""Write the HTTP request of a call: URL, headers and body. It sends nothing.

A value of a path never changes which path is called: every reserved character is escaped, and a value that is empty,
`.` or `..` is refused, because servers and proxies normalize such segments away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlencode

from ferrule.core.json_text import dumps
from ferrule.errors import DefinitionError
from ferrule.sources.openapi.operations import BODY, FORM_BODY, Operation, Parameter

_PRINTABLE = frozenset(map(chr, range(32, 127)))
_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, ready to be sent. `url` is escaped."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


def write_request(server: str, operation: Operation, arguments: Mapping[str, Any]) -> HttpRequest:
    """Write the request of a call. Raises `DefinitionError` for a value that cannot be sent safely."""
    path = operation.path
    query: list[tuple[str, str]] = []
    headers: dict[str, str] = {}
    for parameter in operation.parameters:
        if parameter.argument not in arguments:
            continue
        value = arguments[parameter.argument]
        match parameter.place:
            case "path":
                path = path.replace(f"{{{parameter.name}}}", _segment(parameter, value))
            case "query":
                query += _pairs(parameter, value)
            case _:
                headers[parameter.name] = _header(parameter, value)
    body = None
    if operation.body_type and BODY in arguments:
        headers["content-type"] = operation.body_type
        body = _body_text(operation.body_type, arguments[BODY]).encode("utf-8", "replace")
    url = server.rstrip("/") + quote(path, safe="/%:@!$&'()*+,;=~-._")
    return HttpRequest(operation.method, f"{url}?{urlencode(query, quote_via=quote)}" if query else url, headers, body)


def _body_text(body_type: str, content: Any) -> str:
    if body_type == FORM_BODY:
        return urlencode(list(_form_pairs("", content)))
    return _text(content) if body_type.startswith("text/") else dumps(content)


def _segment(parameter: Parameter, value: Any) -> str:
    items = _items(value)
    text = ",".join(quote(one, safe="") for one in items)
    if not text or text in (".", "..") or any(one in (".", "..") for one in items):
        raise DefinitionError(
            f"{parameter.argument}: {value!r:.60} cannot be a part of a path",
            hint="Send a value that is not empty, . or ..",
        )
    return text


def _pairs(parameter: Parameter, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a query parameter, by its style."""
    name = parameter.name
    if parameter.style == "json":
        yield name, dumps(value)
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if parameter.style == "deepObject":
            yield from _form_pairs(name, fields)
        elif parameter.explodes:
            yield from ((key, _text(one)) for key, one in fields.items())
        else:
            yield name, ",".join(f"{key},{_text(one)}" for key, one in fields.items())
    elif isinstance(value, list) and parameter.explodes:
        yield from ((name, _text(one)) for one in cast("list[Any]", value))
    elif isinstance(value, list):
        yield name, _SEPARATORS.get(parameter.style, ",").join(_items(cast("list[Any]", value)))
    else:
        yield name, _text(value)


def _form_pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a form: `a[b]=1` for objects in objects, `a[0]=1` for lists."""
    if isinstance(value, dict):
        for key, one in cast("dict[str, Any]", value).items():
            yield from _form_pairs(f"{name}[{key}]" if name else key, one)
    elif isinstance(value, list):
        for number, one in enumerate(cast("list[Any]", value)):
            yield from _form_pairs(f"{name}[{number}]", one)
    else:
        yield name, _text(value)


def _header(parameter: Parameter, value: Any) -> str:
    text = ",".join(_items(value))
    if not _PRINTABLE.issuperset(text):
        raise DefinitionError(
            f"{parameter.argument}: a header cannot hold {value!r:.60}",
            hint="Send ASCII text without control characters.",
        )
    return text


def _items(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_text(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return [text for key, one in cast("dict[str, Any]", value).items() for text in (key, _text(one))]
    return [_text(value)]


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else dumps(value)
    return text.encode("utf-8", "replace").decode()
