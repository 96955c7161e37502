"""A client's own types, asked whether a value is one of theirs. The clients themselves do not look."""

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any


@cache
def _adapter(module: str, name: str) -> Any:
    adapter: Any = importlib.import_module("pydantic").TypeAdapter
    return adapter(getattr(importlib.import_module(module), name))


def check(module: str, name: str, values: Sequence[Any], *, strict: bool = False) -> None:
    """Raises where a value is not what its type says; `strict` turns nothing into what it should be."""
    for value in values:
        _adapter(module, name).validate_python(value, strict=strict)
