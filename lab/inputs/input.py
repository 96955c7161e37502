"""Input: one request of the measurement, and how it becomes bytes: also bytes that are no JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from lab.inputs.odd_values import Raw

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
