"""Fault: one thing wrong with the arguments of a call, in words that a model can act on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """`path` is a JSON pointer into the arguments ("" is the whole), `keyword` the schema keyword that failed."""

    path: str
    keyword: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message}"
