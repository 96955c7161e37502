"""Fault: one error in the arguments of a call, with a message that a model can act on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One error. `path` is a JSON pointer into the arguments ("" is the root), `keyword` the one that failed.

    Example:
        str(Fault("/city", "type", "must be a string, got 7"))  # "/city: must be a string, got 7"
    """

    path: str
    keyword: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message}"
