"""FieldReads: which fields of a body were read, at every depth. What nobody read is known by construction.

An object counts as opened once one of its fields was asked for. Its other fields were then either read or overlooked.
A value that was read as a whole, such as a schema, is not opened: its reader answers for what is inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_INDEX = re.compile(r"\[\d+\]")


@dataclass(slots=True, eq=False)
class FieldReads:
    """Filled in by `Field` while a body is read."""

    left_out: dict[str, None] = field(default_factory=dict[str, None])
    """What a reader left out by hand, by path; see `Field.leave_out`."""
    _objects: dict[int, tuple[str, dict[str, Any], set[str]]] = field(
        default_factory=dict[int, tuple[str, dict[str, Any], set[str]]]
    )
    """Path, object and read keys, by the identity of the object, which this table keeps alive."""

    def record(self, path: str, fields: dict[str, Any], key: str) -> None:
        entry = self._objects.get(id(fields))
        if entry is None:
            self._objects[id(fields)] = (path, fields, {key})
        else:
            entry[2].add(key)

    def record_whole(self, path: str, fields: dict[str, Any]) -> None:
        self._objects[id(fields)] = (path, fields, set(fields))

    def open(self, path: str, fields: dict[str, Any]) -> None:
        """Treat an object as opened, although none of its fields was asked for."""
        self._objects.setdefault(id(fields), (path, fields, set()))

    def leave_out(self, path: str, name: str) -> None:
        path = general_path(path)
        self.left_out[f"{path}={name}" if name else path] = None

    def unread(self) -> Iterator[tuple[str, str, object]]:
        """Yield the general path, the path and the value of every given field that nobody read."""
        for path, fields, read in self._objects.values():
            if len(fields) <= len(read) and fields.keys() <= read:
                continue
            for key, value in fields.items():
                if key not in read and value is not None:
                    whole = f"{path}.{key}" if path else key
                    yield general_path(whole), whole, value


def general_path(path: str) -> str:
    """The path without the numbers of entries: `tools[3].name` is `tools[].name`."""
    return _INDEX.sub("[]", path) if "[" in path else path
