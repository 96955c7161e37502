"""Validate values against a client's own types. The clients themselves do not validate."""

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any


@cache
def _adapter(module: str, name: str) -> Any:
    adapter: Any = importlib.import_module("pydantic").TypeAdapter
    return adapter(getattr(importlib.import_module(module), name))


def check(module: str, name: str, values: Sequence[Any], *, strict: bool = False) -> None:
    """Raise if a value does not match its type; `strict` converts nothing."""
    for value in values:
        _adapter(module, name).validate_python(value, strict=strict)
